#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/ops/gradient_sum_cpu.h"
#include "core/ops/spread_pixels.h"

namespace sluice::kernels {

namespace {

/// What a row of dx holds: every stride-th of its pixels, from one of them on, out of a row of pixels; null where it has none.
template <class T>
struct SpreadRow {
  const T* pixels;
  int64_t first, count;

  SpreadRow(const SpreadPlan& plan, const std::vector<Tensor>& from, int64_t row)
      : pixels(nullptr), first(row % plan.height % plan.stride_h), count(0) {
    const int64_t at = row % plan.height / plan.stride_h;
    if (first >= static_cast<int64_t>(from.size()) || at >= plan.rows) return;
    pixels = from[first].data<T>() + (row / plan.height * plan.rows + at) * plan.columns * plan.channels;
    count = std::clamp<int64_t>((plan.width - first + plan.stride_w - 1) / plan.stride_w, 0, plan.columns);
  }

  /// Elements [begin, begin + elements) of the row.
  void write(const SpreadPlan& plan, int64_t begin, int64_t elements, T* to) const {
    const int64_t step = plan.stride_w * plan.channels, end = begin + elements;
    int64_t done = begin;
    // The first pixel that does not end before `begin`.
    for (int64_t i = std::max<int64_t>(0, (begin - first * plan.channels) / step); i < count && done < end; ++i) {
      const int64_t at = first * plan.channels + i * step, from = std::clamp(at, begin, end),
                    last = std::clamp(at + plan.channels, begin, end);
      to = std::fill_n(to, from - done, T(0));
      to = std::copy_n(pixels + i * plan.channels + (from - at), last - from, to);
      done = last;
    }
    std::fill_n(to, end - done, T(0));
  }
};

}  // namespace

void spread_pixels(Cpu& cpu, const std::vector<Tensor>& pixels, const SpreadPlan& plan, const Tensor& sum, const Tensor& dx) {
  on_float(dx.dtype(), "spread_pixels", [&]<class T>() {
    const T* added = sum.defined() ? sum.data<T>() : nullptr;
    const int64_t elements = plan.width * plan.channels;
    cpu.parallel_for(plan.batch * plan.height, grain_for(elements), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const SpreadRow<T> of(plan, pixels, row);
        write_gradient_blocks(row * elements, (row + 1) * elements, added, dx.data<T>(),
                              [&](int64_t first, int64_t count, T* made) { of.write(plan, first - row * elements, count, made); });
      }
    });
  });
}

}  // namespace sluice::kernels
