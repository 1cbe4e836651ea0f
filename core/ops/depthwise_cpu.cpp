#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/ops/depthwise.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

namespace {

/// Calls body(load, store) for registers that cover the channels, as for_lanes does. The last register of many overlaps the one before: so
/// body has to give the same result for a channel whenever it runs, and no channel takes the slow path of a tail.
template <class T, class Body>
void for_channels(int64_t channels, const Body& body) {
  constexpr int64_t kCount = Lanes<compute_t<T>>::kCount;
  for (int64_t begin = 0; begin < channels; begin += kCount) {
    const int64_t first = std::max<int64_t>(0, std::min(begin, channels - kCount));
    for_lanes<T, false>(first, std::min(first + kCount, channels), body);
  }
}

/// A row of results: windows of taps that move over an image, from pixel (top, left) on, which may lie outside.
template <class T>
struct Row {
  int64_t channels;
  const T* image;
  int64_t height, width;
  int64_t top, left, stride;
  const compute_t<T>* taps;
  int64_t size_h, size_w, tap_row, tap_column;  ///< the last two in elements; negative for taps taken backwards
  T* results;
  int64_t count, pitch;  ///< results, and elements from one to the next

  int64_t first_tap_row() const { return std::max<int64_t>(0, -top); }
  int64_t last_tap_row() const { return std::min(size_h, height - top); }
  const T* pixel(int64_t r, int64_t column) const { return image + ((top + r) * width + column) * channels; }
  const compute_t<T>* tap(int64_t r, int64_t s) const { return taps + r * tap_row + s * tap_column; }
};

constexpr int kBlock = 8;  // results of a row that are made at a time

/// A block of results from number `first` on. The taps of a row stay in registers, and a pixel is read once for all windows on it.
/// kIsInside: no window of the block reaches beyond the image or the row's end.
template <int kWidth, int kStride, bool kIsInside, class T, class Load, class Store>
void correlate_block(const Row<T>& row, int64_t first, const Load& load, const Store& store) {
  using V = Lanes<compute_t<T>>;
  const int64_t left = row.left + first * kStride;
  typename V::Register sums[kBlock], taps[kWidth];
#pragma GCC unroll 8
  for (auto& sum : sums) sum = V(0).all;
  for (int64_t r = row.first_tap_row(); r < row.last_tap_row(); ++r) {
#pragma GCC unroll 8
    for (int s = 0; s < kWidth; ++s) taps[s] = load(row.tap(r, s)).all;
#pragma GCC unroll 32
    for (int pixel = 0; pixel < (kBlock - 1) * kStride + kWidth; ++pixel) {
      if (!kIsInside && (left + pixel < 0 || left + pixel >= row.width)) continue;
      const V value = load(row.pixel(r, left + pixel));
#pragma GCC unroll 8
      for (int i = 0; i < kBlock; ++i)
        if (const int s = pixel - i * kStride; s >= 0 && s < kWidth) sums[i] = (sums[i] + value * taps[s]).all;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kBlock; ++i)
    if (kIsInside || first + i < row.count) store(row.results + (first + i) * row.pitch, V(sums[i]));
}

template <int kWidth, int kStride, class T>
void correlate_row(const Row<T>& row) {
  for (int64_t first = 0; first < row.count; first += kBlock) {  // outside the channels: pixels are read from end to end
    const int64_t left = row.left + first * kStride, right = left + (kBlock - 1) * kStride + kWidth;
    const bool is_inside = left >= 0 && right <= row.width && first + kBlock <= row.count;
    for_channels<T>(row.channels, [&](const auto& load, const auto& store) {
      if (is_inside)
        correlate_block<kWidth, kStride, true>(row, first, load, store);
      else
        correlate_block<kWidth, kStride, false>(row, first, load, store);
    });
  }
}

/// For windows of any size and stride.
template <class T>
void correlate_row_of_any(const Row<T>& row) {
  for_channels<T>(row.channels, [&](const auto& load, const auto& store) {
    for (int64_t i = 0; i < row.count; ++i) {
      const int64_t left = row.left + i * row.stride;
      Lanes<compute_t<T>> sum(0);
      for (int64_t r = row.first_tap_row(); r < row.last_tap_row(); ++r)
        for (int64_t s = std::max<int64_t>(0, -left); s < std::min(row.size_w, row.width - left); ++s)
          sum = sum + load(row.pixel(r, left + s)) * load(row.tap(r, s));
      store(row.results + i * row.pitch, sum);
    }
  });
}

/// Calls f with the width and stride of a window as constants and returns true, if there are kernels for them.
template <int... kWidths, class F>
bool on_window(int64_t width, int64_t stride, const F& f) {
  const auto with = [&]<int kWidth>() {
    if (width != kWidth || (stride != 1 && stride != 2)) return false;
    if (stride == 1) f.template operator()<kWidth, 1>();
    if (stride == 2) f.template operator()<kWidth, 2>();
    return true;
  };
  return (with.template operator()<kWidths>() || ...);
}

template <class T>
void correlate(const Row<T>& row) {
  // 1, 2 and 4 are the widths of every other tap of 3, 5 and 7, as they come in the gradient of the input with stride 2.
  const auto run = [&]<int kWidth, int kStride>() { correlate_row<kWidth, kStride>(row); };
  if (!on_window<1, 2, 3, 4, 5, 7>(row.size_w, row.stride, run)) correlate_row_of_any(row);
}

/// Along one axis, the taps that meet position `at` of x: every stride-th, from `first` on. The windows that they belong to are neighbours.
struct MeetingTaps {
  MeetingTaps(int64_t at, int64_t before, int64_t size, int64_t stride)
      : first((at + before) % stride),
        count(first < size ? (size - first + stride - 1) / stride : 0),
        window((at + before - first) / stride - (count - 1)) {}
  int64_t first, count;
  int64_t window;  ///< that of the last tap
};

/// A row of dx. Pixels that lie a stride apart meet the same taps, so they are a convolution of dy with these taps, taken backwards.
template <class T>
void input_gradient_row(const WindowPlan& p, int64_t channels, const T* dy, const compute_t<T>* taps, int64_t in_row, T* dx) {
  const auto& [size_h, size_w, stride_h, stride_w, padding, pad_h, pad_w, dilation_h, dilation_w] = p.window;
  const MeetingTaps rows(in_row, p.before_h, size_h, stride_h);
  for (int64_t column = 0; column < std::min(stride_w, p.in_w); ++column) {
    const MeetingTaps columns(column, p.before_w, size_w, stride_w);
    const int64_t last_tap = (rows.first + (rows.count - 1) * stride_h) * size_w + columns.first + (columns.count - 1) * stride_w;
    correlate(Row<T>{.channels = channels,
                     .image = dy,
                     .height = p.out_h,
                     .width = p.out_w,
                     .top = rows.window,
                     .left = columns.window,
                     .stride = 1,
                     .taps = taps + last_tap * channels,
                     .size_h = rows.count,
                     .size_w = columns.count,
                     .tap_row = -stride_h * size_w * channels,
                     .tap_column = -stride_w * channels,
                     .results = dx + column * channels,
                     .count = (p.in_w - column + stride_w - 1) / stride_w,
                     .pitch = stride_w * channels});
  }
}

/// Rows of y, counted over all images, whose share of a weight's gradient is summed.
template <class T>
struct WeightGradient {
  const WindowPlan& plan;
  int64_t channels;
  const T *dy, *x;
  compute_t<T>* sums;  ///< [size_h, size_w, channels]

  const T* dy_row(int64_t row) const { return dy + row * plan.out_w * channels; }
  /// Row of x under tap row r of the windows of a row of y; null outside the image.
  const T* x_row(int64_t row, int64_t r) const {
    const int64_t at = row % plan.out_h * plan.window.stride_h - plan.before_h + r;
    return at < 0 || at >= plan.in_h ? nullptr : x + (row / plan.out_h * plan.in_h + at) * plan.in_w * channels;
  }
  compute_t<T>* sum(int64_t r, int64_t s) const { return sums + (r * plan.window.size_w + s) * channels; }
};

/// The sums of a row of taps, in two parts: of even and odd columns, so that an addition need not wait for the one before.
template <class V, int kWidth>
struct TapSums {
  typename V::Register even[kWidth], odd[kWidth];
};

/// Adds the products of four neighbours of dy, from column `first` on, with the pixels of x under their taps.
/// kIsInside: as for correlate_block.
template <int kWidth, int kStride, bool kIsInside, class V, class T, class Load>
void add_block(const WeightGradient<T>& of, const T* dy, const T* x, int64_t first, const Load& load, TapSums<V, kWidth>& sums) {
  constexpr int kColumns = 4;
  const int64_t left = first * kStride - of.plan.before_w;
  typename V::Register gradients[kColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kColumns; ++i)
    gradients[i] = (kIsInside || first + i < of.plan.out_w ? load(dy + (first + i) * of.channels) : V(0)).all;
#pragma GCC unroll 16
  for (int pixel = 0; pixel < (kColumns - 1) * kStride + kWidth; ++pixel) {
    if (!kIsInside && (left + pixel < 0 || left + pixel >= of.plan.in_w)) continue;
    const V value = load(x + (left + pixel) * of.channels);
#pragma GCC unroll 4
    for (int i = 0; i < kColumns; ++i)
      if (const int s = pixel - i * kStride; s >= 0 && s < kWidth) {
        auto& sum = (i % 2 == 0 ? sums.even : sums.odd)[s];
        sum = (sum + value * gradients[i]).all;
      }
  }
}

/// Rows [begin, end), few enough to stay in the first-level cache for all rows of taps.
template <int kWidth, int kStride, class T, class Load, class Store>
void add_rows(const WeightGradient<T>& of, int64_t begin, int64_t end, const Load& load, const Store& store) {
  using V = Lanes<compute_t<T>>;
  constexpr int kColumns = 4;
  for (int64_t r = 0; r < of.plan.window.size_h; ++r) {
    TapSums<V, kWidth> sums;
#pragma GCC unroll 8
    for (int s = 0; s < kWidth; ++s) sums.even[s] = load(of.sum(r, s)).all, sums.odd[s] = V(0).all;
    for (int64_t row = begin; row < end; ++row) {
      const T *dy = of.dy_row(row), *x = of.x_row(row, r);
      if (!x) continue;
      for (int64_t first = 0; first < of.plan.out_w; first += kColumns) {
        const int64_t left = first * kStride - of.plan.before_w, right = left + (kColumns - 1) * kStride + kWidth;
        if (left >= 0 && right <= of.plan.in_w && first + kColumns <= of.plan.out_w)
          add_block<kWidth, kStride, true>(of, dy, x, first, load, sums);
        else
          add_block<kWidth, kStride, false>(of, dy, x, first, load, sums);
      }
    }
#pragma GCC unroll 8
    for (int s = 0; s < kWidth; ++s) store(of.sum(r, s), V(sums.even[s]) + V(sums.odd[s]));
  }
}

/// The same for windows of any size and stride, tap by tap.
template <class T, class Load, class Store>
void add_rows_of_any(const WeightGradient<T>& of, int64_t begin, int64_t end, const Load& load, const Store& store) {
  const Window& window = of.plan.window;
  for (int64_t r = 0; r < window.size_h; ++r)
    for (int64_t s = 0; s < window.size_w; ++s) {
      auto sum = load(of.sum(r, s));
      for (int64_t row = begin; row < end; ++row) {
        const T *dy = of.dy_row(row), *x = of.x_row(row, r);
        for (int64_t column = 0; x && column < of.plan.out_w; ++column)
          if (const int64_t at = column * window.stride_w - of.plan.before_w + s; at >= 0 && at < of.plan.in_w)
            sum = sum + load(dy + column * of.channels) * load(x + at * of.channels);
      }
      store(of.sum(r, s), sum);
    }
}

/// of.sums = the sums over rows [begin, end).
template <class T>
void weight_gradient(const WeightGradient<T>& of, int64_t begin, int64_t end) {
  using V = Lanes<compute_t<T>>;
  constexpr int64_t kPixels = 32;
  const Window& window = of.plan.window;
  const int64_t step = std::max<int64_t>(1, kPixels / of.plan.out_w);
  // Pixels are read from end to end, unless registers overlap: then one has to be done before the next adds to the same sums again.
  const int64_t panel = of.channels % V::kCount == 0 ? step : end - begin;
  for (int64_t at = begin; at < end; at += panel)
    for_channels<T>(of.channels, [&](const auto& load, const auto& store) {
      for (int64_t tap = 0; at == begin && tap < window.size_h * window.size_w; ++tap) store(of.sum(0, tap), V(0));
      for (int64_t row = at; row < std::min(at + panel, end); row += step) {
        const int64_t last = std::min(row + step, end);
        const auto run = [&]<int kWidth, int kStride>() { add_rows<kWidth, kStride>(of, row, last, load, store); };
        if (!on_window<3, 5, 7>(window.size_w, window.stride_w, run)) add_rows_of_any(of, row, last, load, store);
      }
    });
}

}  // namespace

void depthwise(Cpu& cpu, const WindowPlan& p, const Tensor& x, const Tensor& taps, const Tensor& y) {
  const int64_t channels = x.dim(3);
  on_float(x.dtype(), "conv2d", [&]<class T>() {
    const T* images = x.data<T>();
    const auto* weight = taps.data<compute_t<T>>();
    T* results = y.data<T>();
    cpu.parallel_for(p.batch * p.out_h, grain_for(p.out_w * channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        correlate(Row<T>{.channels = channels,
                         .image = images + row / p.out_h * p.in_pixels() * channels,
                         .height = p.in_h,
                         .width = p.in_w,
                         .top = row % p.out_h * p.window.stride_h - p.before_h,
                         .left = -p.before_w,
                         .stride = p.window.stride_w,
                         .taps = weight,
                         .size_h = p.window.size_h,
                         .size_w = p.window.size_w,
                         .tap_row = p.window.size_w * channels,
                         .tap_column = channels,
                         .results = results + row * p.out_w * channels,
                         .count = p.out_w,
                         .pitch = channels});
    });
  });
}

void depthwise_input_gradient(Cpu& cpu, const WindowPlan& p, const Tensor& dy, const Tensor& taps, const Tensor& dx) {
  const int64_t channels = dy.dim(3);
  on_float(dy.dtype(), "conv2d", [&]<class T>() {
    const T* from = dy.data<T>();
    const auto* weight = taps.data<compute_t<T>>();
    T* to = dx.data<T>();
    cpu.parallel_for(p.batch * p.in_h, grain_for(p.in_w * channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        input_gradient_row(p, channels, from + row / p.in_h * p.out_pixels() * channels, weight, row % p.in_h,
                           to + row * p.in_w * channels);
    });
  });
}

void depthwise_weight_gradient(Cpu& cpu, const WindowPlan& p, const Tensor& dy, const Tensor& x, int64_t rows_per_chunk,
                               const Tensor& partial) {
  const int64_t channels = x.dim(3);
  on_float(dy.dtype(), "conv2d", [&]<class T>() {
    const T *gradient = dy.data<T>(), *images = x.data<T>();
    auto* sums = partial.data<compute_t<T>>();
    cpu.parallel_for(p.batch * p.out_h, rows_per_chunk, [&](int64_t begin, int64_t end) {
      compute_t<T>* chunk = sums + begin / rows_per_chunk * partial.dim(1) * channels;
      weight_gradient(WeightGradient<T>{p, channels, gradient, images, chunk}, begin, end);
    });
  });
}

}  // namespace sluice::kernels
