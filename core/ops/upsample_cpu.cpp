#include "core/cpu/cpu.h"
#include "core/ops/lanes.h"
#include "core/ops/upsample.h"

namespace sluice::kernels {

namespace {

/// Calls body(row of all small images, its first row of the large ones, how many of those it has).
template <class Body>
void for_rows(Cpu& cpu, const UpsamplePlan& plan, const Body& body) {
  cpu.parallel_for(plan.batch * plan.in_h, grain_for(plan.factor * plan.out_w * plan.channels), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t top = row % plan.in_h * plan.factor;
      body(row, row / plan.in_h * plan.out_h + top, std::min(plan.factor, plan.out_h - top));
    }
  });
}

}  // namespace

void upsample2d(Cpu& cpu, const Tensor& x, const UpsamplePlan& plan, const Tensor& y) {
  const int64_t channels = plan.channels, large_row = plan.out_w * channels;
  on_float(x.dtype(), "upsample2d", [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    for_rows(cpu, plan, [&](int64_t row, int64_t first, int64_t count) {
      const T* pixels = from + row * plan.in_w * channels;
      T* wide = to + first * large_row;
      for (int64_t column = 0; column < plan.out_w; ++column)
        std::copy_n(pixels + column / plan.factor * channels, channels, wide + column * channels);
      for (int64_t again = 1; again < count; ++again) std::copy_n(wide, large_row, wide + again * large_row);
    });
  });
}

void upsample2d_backward(Cpu& cpu, const Tensor& dy, const UpsamplePlan& plan, const Tensor& dx) {
  const int64_t channels = plan.channels, large_row = plan.out_w * channels;
  on_float(dy.dtype(), "upsample2d_backward", [&]<class T>() {
    const T* from = dy.data<T>();
    T* to = dx.data<T>();
    for_rows(cpu, plan, [&](int64_t row, int64_t first, int64_t count) {
      for (int64_t column = 0; column < plan.in_w; ++column) {
        const int64_t left = column * plan.factor, width = std::min(plan.factor, plan.out_w - left);
        const T* corner = from + first * large_row + left * channels;
        T* pixel = to + (row * plan.in_w + column) * channels;
        for_lanes<T>(0, channels, [&](auto load, auto store) {
          auto sum = load(corner);
          for (int64_t i = 1; i < count * width; ++i) sum = sum + load(corner + i / width * large_row + i % width * channels);
          store(pixel, sum);
        });
      }
    });
  });
}

}  // namespace sluice::kernels
