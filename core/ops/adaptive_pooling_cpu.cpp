#include "core/cpu/cpu.h"
#include "core/ops/adaptive_pooling.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

void adaptive_average_pool2d(Cpu& cpu, const Tensor& x, const AdaptivePlan& plan, const Tensor& y) {
  const auto& [batch, channels, rows, columns] = plan;
  const int64_t in_h = rows.in, in_w = columns.in, out_h = rows.out, out_w = columns.out;
  on_float(x.dtype(), "adaptive_average_pool2d", [&]<class T>() {
    using V = Lanes<compute_t<T>>;
    const T* from = x.data<T>();
    T* to = y.data<T>();
    cpu.parallel_for(batch * out_h, grain_for((in_h / out_h + 1) * in_w * channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto down = rows.pixels(row % out_h);
        const T* image = from + row / out_h * in_h * in_w * channels;
        for (int64_t column = 0; column < out_w; ++column) {
          const auto across = columns.pixels(column);
          const V share(1.0 / static_cast<double>((down.end - down.begin) * (across.end - across.begin)));
          for_lanes<T>(0, channels, [&](auto load, auto store) {
            V sum(0);
            for (int64_t i = down.begin; i < down.end; ++i)
              for (int64_t j = across.begin; j < across.end; ++j) sum = sum + load(image + (i * in_w + j) * channels);
            store(to + (row * out_w + column) * channels, sum * share);
          });
        }
      }
    });
  });
}

void adaptive_average_pool2d_backward(Cpu& cpu, const Tensor& dy, const AdaptivePlan& plan, const Tensor& dx) {
  const auto& [batch, channels, rows, columns] = plan;
  const int64_t in_h = rows.in, in_w = columns.in, out_h = rows.out, out_w = columns.out;
  on_float(dy.dtype(), "adaptive_average_pool2d_backward", [&]<class T>() {
    using V = Lanes<compute_t<T>>;
    const T* from = dy.data<T>();
    T* to = dx.data<T>();
    cpu.parallel_for(batch * in_h, grain_for((out_h / in_h + 1) * out_w * channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto down = rows.places(row % in_h);
        const T* image = from + row / in_h * out_h * out_w * channels;
        for (int64_t column = 0; column < in_w; ++column) {
          const auto across = columns.places(column);
          for_lanes<T>(0, channels, [&](auto load, auto store) {
            V sum(0);
            for (int64_t i = down.begin; i < down.end; ++i)
              for (int64_t j = across.begin; j < across.end; ++j) {
                const V share(1.0 / static_cast<double>(rows.pixel_count(i) * columns.pixel_count(j)));
                sum = sum + share * load(image + (i * out_w + j) * channels);
              }
            store(to + (row * in_w + column) * channels, sum);
          });
        }
      }
    });
  });
}

}  // namespace sluice::kernels
