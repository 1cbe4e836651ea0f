#include "core/ops/lanes.h"
#include "core/ops/pooling.h"

namespace sluice::kernels {

namespace {

constexpr int64_t kElements = 1024;  // of a strip: what is gathered for them lies on the stack

/// Neighbouring pixels of one row of the images that a kernel writes, with all of their channels; or one pixel with a part of them.
struct Strip {
  int64_t image, row, first, last;  ///< last: one past the last column
  int64_t channel, channels;        ///< the first, and how many of each pixel
  int64_t elements() const { return (last - first) * channels; }
};

/// Calls body(strip) for strips that cover images [batch, height, width, channels]. `work`: operations an element.
template <class Body>
void for_strips(Cpu& cpu, int64_t batch, int64_t height, int64_t width, int64_t channels, int64_t work, const Body& body) {
  const int64_t pixels = std::max<int64_t>(1, kElements / std::max<int64_t>(1, channels));
  cpu.parallel_for(batch * height, grain_for(width * channels * work), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line)
      for (int64_t first = 0; first < width; first += pixels)
        for (int64_t channel = 0; channel < channels; channel += kElements)
          body(Strip{line / height, line % height, first, std::min(width, first + pixels), channel,
                     std::min(kElements, channels - channel)});
  });
}

template <class Body>
void for_output_strips(Cpu& cpu, const WindowPlan& plan, int64_t channels, const Body& body) {
  for_strips(cpu, plan.batch, plan.out_h, plan.out_w, channels, plan.window.size_h * plan.window.size_w, body);
}
template <class Body>
void for_input_strips(Cpu& cpu, const WindowPlan& plan, int64_t channels, const Body& body) {
  const Window& window = plan.window;
  const int64_t work = window.size_h * window.size_w / (window.stride_h * window.stride_w);
  for_strips(cpu, plan.batch, plan.in_h, plan.in_w, channels, std::max<int64_t>(1, work), body);
}

/// Columns [first, last) of a strip and, for the first of them, the column that it reads. Those of the others follow one by one.
template <class Body>
void for_runs(const Strip& strip, int64_t first, int64_t last, int64_t step, int64_t source, int64_t source_step, const Body& body) {
  if (step == 1 && source_step == 1) {
    if (first < last) body(first - strip.first, source, last - first);
    return;
  }
  for (int64_t column = first; column < last; column += step, source += source_step) body(column - strip.first, source, 1);
}

int64_t divided_up(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

/// For every place of the window, row by row, calls body(place, row of x, pixel of the strip, column of x, pixels) for runs of a strip of y
/// and what lies under them.
template <class Body>
void for_covered(const WindowPlan& plan, const Strip& strip, const Body& body) {
  const Window& window = plan.window;
  for (int64_t down = 0; down < window.size_h; ++down) {
    const int64_t row = strip.row * window.stride_h - plan.before_h + down;
    if (row < 0 || row >= plan.in_h) continue;
    for (int64_t across = 0; across < window.size_w; ++across) {
      const int64_t shift = across - plan.before_w;  // y's column j lies over x's column j * stride_w + shift
      const int64_t first = std::max(strip.first, divided_up(-shift, window.stride_w));
      const int64_t last = std::min(strip.last, divided_up(plan.in_w - shift, window.stride_w));
      for_runs(strip, first, last, 1, first * window.stride_w + shift, window.stride_w, [&](int64_t pixel, int64_t column, int64_t count) {
        body(static_cast<int32_t>(down * window.size_w + across), row, pixel, column, count);
      });
    }
  }
}

/// The same for a strip of x and the windows that cover it: body(place, row of y, pixel of the strip, column of y, pixels).
template <class Body>
void for_covering(const WindowPlan& plan, const Strip& strip, const Body& body) {
  const Window& window = plan.window;
  for (int64_t down = 0; down < window.size_h; ++down) {
    const int64_t top = strip.row + plan.before_h - down, row = top / window.stride_h;
    if (top < 0 || top % window.stride_h != 0 || row >= plan.out_h) continue;
    for (int64_t across = 0; across < window.size_w; ++across) {
      const int64_t shift = across - plan.before_w;
      const int64_t source = divided_up(strip.first - shift, window.stride_w), first = source * window.stride_w + shift;
      const int64_t last = std::min(strip.last, (plan.out_w - 1) * window.stride_w + shift + 1);
      for_runs(strip, first, last, window.stride_w, source, 1, [&](int64_t pixel, int64_t column, int64_t count) {
        body(static_cast<int32_t>(down * window.size_w + across), row, pixel, column, count);
      });
    }
  }
}

IndexRange rows_under(const WindowPlan& plan, int64_t place) {
  return covered_by(place, plan.in_h, plan.window.size_h, plan.window.stride_h, plan.before_h);
}
IndexRange columns_under(const WindowPlan& plan, int64_t place) {
  return covered_by(place, plan.in_w, plan.window.size_w, plan.window.stride_w, plan.before_w);
}

/// Calls body(pixel, pixels, pixels of x under each of their windows) for runs of y's pixels with equal windows.
template <class Body>
void for_equal_windows(const WindowPlan& plan, int64_t row, int64_t first, int64_t count, const Body& body) {
  const auto [top, bottom] = rows_under(plan, row);
  const auto width = [&](int64_t column) {
    const auto [left, right] = columns_under(plan, column);
    return right - left;
  };
  for (int64_t begin = first, end; begin < first + count; begin = end) {
    for (end = begin + 1; end < first + count && width(end) == width(begin);) ++end;
    body(begin - first, end - begin, (bottom - top) * width(begin));
  }
}

/// largest = the larger of it and x, also where x is NaN or the first; place = at there. Out of line, as the next one, because g++ forgets
/// __restrict where it inlines, and then does not vectorise.
template <class T, class C = compute_t<T>>
[[gnu::noinline]] void raise(const T* __restrict x, int64_t count, int32_t at, C* __restrict largest, int32_t* __restrict place) {
  for (int64_t j = 0; j < count; ++j) {
    const C value = x[j], before = largest[j];
    const bool is_larger = (value > before) | ((value != value) & (before == before)) | (place[j] < 0);
    largest[j] = is_larger ? value : before;
    place[j] = is_larger ? at : place[j];
  }
}

/// sum += dy where the maximum of its window was at `at`.
template <class T, class C = compute_t<T>>
[[gnu::noinline]] void add_where(const T* __restrict dy, const uint8_t* __restrict place, int64_t count, int32_t at, C* __restrict sum) {
  for (int64_t j = 0; j < count; ++j) {
    const C value = dy[j];
    sum[j] += place[j] == at ? value : C(0);
  }
}

/// sum += factor x
template <class T, class C = compute_t<T>>
void add_scaled(const T* x, int64_t count, C factor, C* sum) {
  for_lanes<T>(0, count, [&](auto load, auto store) { store(sum, load(sum) + load(x) * decltype(load(x))(factor)); });
}

template <class T, class C = compute_t<T>>
void write_scaled(const C* sum, int64_t count, C factor, T* y) {
  for_lanes<T>(0, count, [&](auto load, auto store) { store(y, load(sum) * decltype(load(sum))(factor)); });
}

/// The offset of a pixel of a strip's image, at the strip's first channel.
int64_t offset_of(const Strip& strip, int64_t row, int64_t column, int64_t height, int64_t width, int64_t channels) {
  return ((strip.image * height + row) * width + column) * channels + strip.channel;
}

}  // namespace

void max_pool2d(Cpu& cpu, const Tensor& x, const WindowPlan& plan, const Tensor& y, const Tensor& place) {
  const int64_t channels = x.dim(-1);
  on_float(x.dtype(), "max_pool2d", [&]<class T>() {
    using C = compute_t<T>;
    const T* from = x.data<T>();
    T* to = y.data<T>();
    uint8_t* place_to = place.defined() ? place.data<uint8_t>() : nullptr;
    for_output_strips(cpu, plan, channels, [&](const Strip& strip) {
      C largest[kElements];
      int32_t at[kElements];
      std::fill_n(largest, strip.elements(), C(0));
      std::fill_n(at, strip.elements(), -1);
      for_covered(plan, strip, [&](int32_t which, int64_t row, int64_t pixel, int64_t column, int64_t count) {
        const int64_t begin = pixel * strip.channels;
        raise(from + offset_of(strip, row, column, plan.in_h, plan.in_w, channels), count * strip.channels, which, largest + begin,
              at + begin);
      });
      const int64_t begin = offset_of(strip, strip.row, strip.first, plan.out_h, plan.out_w, channels);
      write_scaled(largest, strip.elements(), C(1), to + begin);
      for (int64_t j = 0; place_to && j < strip.elements(); ++j) place_to[begin + j] = static_cast<uint8_t>(at[j]);
    });
  });
}

void max_pool2d_backward(Cpu& cpu, const Tensor& dy, const Tensor& place, const WindowPlan& plan, const Tensor& dx) {
  const int64_t channels = dy.dim(-1);
  on_float(dy.dtype(), "max_pool2d_backward", [&]<class T>() {
    using C = compute_t<T>;
    const T* gradient = dy.data<T>();
    const uint8_t* places = place.data<uint8_t>();
    T* to = dx.data<T>();
    for_input_strips(cpu, plan, channels, [&](const Strip& strip) {
      C sum[kElements];
      std::fill_n(sum, strip.elements(), C(0));
      for_covering(plan, strip, [&](int32_t which, int64_t row, int64_t pixel, int64_t column, int64_t count) {
        const int64_t at = offset_of(strip, row, column, plan.out_h, plan.out_w, channels);
        add_where(gradient + at, places + at, count * strip.channels, which, sum + pixel * strip.channels);
      });
      write_scaled(sum, strip.elements(), C(1), to + offset_of(strip, strip.row, strip.first, plan.in_h, plan.in_w, channels));
    });
  });
}

void average_pool2d(Cpu& cpu, const Tensor& x, const WindowPlan& plan, const Tensor& y) {
  const int64_t channels = x.dim(-1);
  on_float(x.dtype(), "average_pool2d", [&]<class T>() {
    using C = compute_t<T>;
    const T* from = x.data<T>();
    T* to = y.data<T>();
    for_output_strips(cpu, plan, channels, [&](const Strip& strip) {
      C sum[kElements];
      std::fill_n(sum, strip.elements(), C(0));
      for_covered(plan, strip, [&](int32_t, int64_t row, int64_t pixel, int64_t column, int64_t count) {
        const T* values = from + offset_of(strip, row, column, plan.in_h, plan.in_w, channels);
        add_scaled(values, count * strip.channels, C(1), sum + pixel * strip.channels);
      });
      T* target = to + offset_of(strip, strip.row, strip.first, plan.out_h, plan.out_w, channels);
      for_equal_windows(plan, strip.row, strip.first, strip.last - strip.first, [&](int64_t pixel, int64_t count, int64_t covered) {
        const int64_t begin = pixel * strip.channels;
        write_scaled(sum + begin, count * strip.channels, C(1) / static_cast<C>(covered), target + begin);
      });
    });
  });
}

void average_pool2d_backward(Cpu& cpu, const Tensor& dy, const WindowPlan& plan, const Tensor& dx) {
  const int64_t channels = dy.dim(-1);
  on_float(dy.dtype(), "average_pool2d_backward", [&]<class T>() {
    using C = compute_t<T>;
    const T* gradient = dy.data<T>();
    T* to = dx.data<T>();
    for_input_strips(cpu, plan, channels, [&](const Strip& strip) {
      C sum[kElements];
      std::fill_n(sum, strip.elements(), C(0));
      for_covering(plan, strip, [&](int32_t, int64_t row, int64_t pixel, int64_t column, int64_t count) {
        const T* values = gradient + offset_of(strip, row, column, plan.out_h, plan.out_w, channels);
        for_equal_windows(plan, row, column, count, [&](int64_t at, int64_t equal, int64_t covered) {
          const int64_t skipped = at * channels;
          add_scaled(values + skipped, equal * strip.channels, C(1) / static_cast<C>(covered), sum + pixel * strip.channels + skipped);
        });
      });
      write_scaled(sum, strip.elements(), C(1), to + offset_of(strip, strip.row, strip.first, plan.in_h, plan.in_w, channels));
    });
  });
}

}  // namespace sluice::kernels
