#include "core/ops/gradient_sum_cuda.cuh"
#include "core/ops/packs_cuda.cuh"
#include "core/ops/pooling.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// An axis of the images and of the window, in 32 bits: pixels are found by division.
struct Axis {
  int in, out, size, stride, before;

  __device__ IndexRange under(int place) const { return covered_by(place, in, size, stride, before); }
  __device__ IndexRange over(int at) const { return covering(at, out, size, stride, before); }
};

/// A thread takes kWidth neighbouring channels of one pixel.
template <int kWidth>
struct Pool {
  Axis h, w;
  int64_t channels;
  unsigned runs, threads;  ///< of a pixel's channels; of all pixels

  Pool(const WindowPlan& plan, int64_t all_channels, int64_t pixels)
      : h{static_cast<int>(plan.in_h), static_cast<int>(plan.out_h), static_cast<int>(plan.window.size_h),
          static_cast<int>(plan.window.stride_h), static_cast<int>(plan.before_h)},
        w{static_cast<int>(plan.in_w), static_cast<int>(plan.out_w), static_cast<int>(plan.window.size_w),
          static_cast<int>(plan.window.stride_w), static_cast<int>(plan.before_w)},
        channels(all_channels) {
    const int64_t all = pixels * (channels / kWidth);
    require<UsageError>(all < (int64_t{1} << 32) - kThreads, "pooling on cuda: needs fewer than 2^32 groups of ", kWidth, " channels, got ",
                        all, "; use smaller micro-batches");
    runs = static_cast<unsigned>(channels / kWidth);
    threads = static_cast<unsigned>(all);
  }
  dim3 grid() const { return dim3((threads + kThreads - 1) / kThreads); }
};

/// Where the calling thread writes.
struct Pixel {
  unsigned image;
  int row, column;
  int64_t offset;  ///< of its first element
  unsigned channel;

  template <int kWidth>
  __device__ Pixel(const Pool<kWidth>& pool, unsigned thread, int height, int width) {
    const unsigned pixel = thread / pool.runs, line = pixel / width;
    channel = (thread - pixel * pool.runs) * kWidth;
    column = static_cast<int>(pixel - line * width);
    image = line / height;
    row = static_cast<int>(line - image * height);
    offset = int64_t{pixel} * pool.channels + channel;
  }
};

/// Calls f(offset of an element of x, place of the window) for the pixels under the window at `at`, row by row.
template <int kWidth, class F>
__device__ void for_window(const Pool<kWidth>& pool, const Pixel& at, F f) {
  const IndexRange rows = pool.h.under(at.row), columns = pool.w.under(at.column);
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const int64_t down = row + pool.h.before - at.row * pool.h.stride, across = column + pool.w.before - at.column * pool.w.stride;
      f(((at.image * pool.h.in + row) * pool.w.in + column) * pool.channels + at.channel, static_cast<int>(down * pool.w.size + across));
    }
}

/// Calls f(offset of an element of y, its row, its column, place of the window) for the windows that cover pixel `at` of x.
template <int kWidth, class F>
__device__ void for_covering(const Pool<kWidth>& pool, const Pixel& at, F f) {
  const IndexRange rows = pool.h.over(at.row), columns = pool.w.over(at.column);
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const int64_t down = at.row + pool.h.before - row * pool.h.stride, across = at.column + pool.w.before - column * pool.w.stride;
      f(((at.image * pool.h.out + row) * pool.w.out + column) * pool.channels + at.channel, static_cast<int>(row), static_cast<int>(column),
        static_cast<int>(down * pool.w.size + across));
    }
}

template <int kWidth>
__device__ int covered_pixels(const Pool<kWidth>& pool, int row, int column) {
  const IndexRange rows = pool.h.under(row), columns = pool.w.under(column);
  return static_cast<int>((rows.end - rows.begin) * (columns.end - columns.begin));
}

/// place may be null.
template <class T, int kWidth>
__global__ void largest_of_windows(const T* x, T* y, uint8_t* place, Pool<kWidth> pool) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= pool.threads) return;
  const Pixel pixel(pool, static_cast<unsigned>(thread), pool.h.out, pool.w.out);
  Run<kWidth, T> largest;
  Run<kWidth, uint8_t> at;
  bool is_first = true;
  for_window(pool, pixel, [&](int64_t offset, int which) {
    const Run<kWidth, T> values = load_run<kWidth>(x + offset);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const C value = values.at[j], before = largest.at[j];
      if (is_first || value > before || (value != value && before == before)) {
        largest.at[j] = values.at[j];
        at.at[j] = static_cast<uint8_t>(which);
      }
    }
    is_first = false;
  });
  store_run(y + pixel.offset, largest);
  if (place) store_run(place + pixel.offset, at);
}

/// dx = sums (+ added, which may be null) at the pixel.
template <class T, int kWidth>
__device__ void store_gradients(const Pixel& pixel, const compute_t<T> (&sums)[kWidth], const T* added, T* dx) {
  Run<kWidth, T> result;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) result.at[j] = static_cast<T>(sums[j]);
  if (added) {
    const Run<kWidth, T> before = load_run<kWidth>(added + pixel.offset);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) result.at[j] = rounded_sum(result.at[j], before.at[j]);
  }
  store_run(dx + pixel.offset, result);
}

/// added may be null.
template <class T, int kWidth>
__global__ void largest_gradients(const T* dy, const uint8_t* place, const T* added, T* dx, Pool<kWidth> pool) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= pool.threads) return;
  const Pixel pixel(pool, static_cast<unsigned>(thread), pool.h.in, pool.w.in);
  C sum[kWidth] = {};
  for_covering(pool, pixel, [&](int64_t offset, int, int, int which) {
    const Run<kWidth, uint8_t> at = load_run<kWidth>(place + offset);
    const Run<kWidth, T> gradient = load_run<kWidth>(dy + offset);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[j] += at.at[j] == which ? static_cast<C>(gradient.at[j]) : C(0);
  });
  store_gradients(pixel, sum, added, dx);
}

template <class T, int kWidth>
__global__ void average_of_windows(const T* x, T* y, Pool<kWidth> pool) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= pool.threads) return;
  const Pixel pixel(pool, static_cast<unsigned>(thread), pool.h.out, pool.w.out);
  C sum[kWidth] = {};
  for_window(pool, pixel, [&](int64_t offset, int) {
    const Run<kWidth, T> values = load_run<kWidth>(x + offset);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[j] += static_cast<C>(values.at[j]);
  });
  const C factor = C(1) / static_cast<C>(covered_pixels(pool, pixel.row, pixel.column));
  Run<kWidth, T> result;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) result.at[j] = static_cast<T>(sum[j] * factor);
  store_run(y + pixel.offset, result);
}

/// added may be null.
template <class T, int kWidth>
__global__ void average_gradients(const T* dy, const T* added, T* dx, Pool<kWidth> pool) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= pool.threads) return;
  const Pixel pixel(pool, static_cast<unsigned>(thread), pool.h.in, pool.w.in);
  C sum[kWidth] = {};
  for_covering(pool, pixel, [&](int64_t offset, int row, int column, int) {
    const C factor = C(1) / static_cast<C>(covered_pixels(pool, row, column));
    const Run<kWidth, T> gradient = load_run<kWidth>(dy + offset);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[j] += static_cast<C>(gradient.at[j]) * factor;
  });
  store_gradients(pixel, sum, added, dx);
}

/// Calls f.operator()<kWidth>(pool) for threads that write `pixels` pixels, as wide as the channels allow. Tensors come from the device's
/// arena, whose alignment allows packs where a row of channels does.
template <class T, class F>
void on_pool(const WindowPlan& plan, int64_t channels, int64_t pixels, bool packed, const F& f) {
  if (pixels * channels == 0) return;
  if (packed) return f(Pool<Pack<T>::kCount>(plan, channels, pixels));
  f(Pool<1>(plan, channels, pixels));
}

template <class T, class F>
void on_outputs(const WindowPlan& plan, const Tensor& x, const Tensor& y, const F& f) {
  const int64_t channels = x.dim(-1);
  on_pool<T>(plan, channels, plan.batch * plan.out_pixels(), packs_fit<T>(channels, x.data<T>(), y.data<T>()), f);
}
template <class T, class F>
void on_inputs(const WindowPlan& plan, const Tensor& dy, const T* added, const Tensor& dx, const F& f) {
  const int64_t channels = dy.dim(-1);
  on_pool<T>(plan, channels, plan.batch * plan.in_pixels(), packs_fit<T>(channels, dy.data<T>(), added, dx.data<T>()), f);
}

}  // namespace

void max_pool2d(Cuda& cuda, const Tensor& x, const WindowPlan& plan, const Tensor& y, const Tensor& place) {
  on_float(x.dtype(), "max_pool2d", [&]<class T>() {
    on_outputs<T>(plan, x, y, [&]<int kWidth>(const Pool<kWidth>& pool) {
      launch(cuda, "max_pool2d", {pool.grid(), kThreads}, largest_of_windows<T, kWidth>, x.data<T>(), y.data<T>(),
             place.defined() ? place.data<uint8_t>() : nullptr, pool);
    });
  });
}

void max_pool2d_backward(Cuda& cuda, const Tensor& dy, const Tensor& place, const WindowPlan& plan, const Tensor& sum, const Tensor& dx) {
  on_float(dy.dtype(), "max_pool2d_backward", [&]<class T>() {
    const T* added = sum.defined() ? sum.data<T>() : nullptr;
    on_inputs<T>(plan, dy, added, dx, [&]<int kWidth>(const Pool<kWidth>& pool) {
      launch(cuda, "max_pool2d_backward", {pool.grid(), kThreads}, largest_gradients<T, kWidth>, dy.data<T>(), place.data<uint8_t>(), added,
             dx.data<T>(), pool);
    });
  });
}

void average_pool2d(Cuda& cuda, const Tensor& x, const WindowPlan& plan, const Tensor& y) {
  on_float(x.dtype(), "average_pool2d", [&]<class T>() {
    on_outputs<T>(plan, x, y, [&]<int kWidth>(const Pool<kWidth>& pool) {
      launch(cuda, "average_pool2d", {pool.grid(), kThreads}, average_of_windows<T, kWidth>, x.data<T>(), y.data<T>(), pool);
    });
  });
}

void average_pool2d_backward(Cuda& cuda, const Tensor& dy, const WindowPlan& plan, const Tensor& sum, const Tensor& dx) {
  on_float(dy.dtype(), "average_pool2d_backward", [&]<class T>() {
    const T* added = sum.defined() ? sum.data<T>() : nullptr;
    on_inputs<T>(plan, dy, added, dx, [&]<int kWidth>(const Pool<kWidth>& pool) {
      launch(cuda, "average_pool2d_backward", {pool.grid(), kThreads}, average_gradients<T, kWidth>, dy.data<T>(), added, dx.data<T>(),
             pool);
    });
  });
}

}  // namespace sluice::kernels
