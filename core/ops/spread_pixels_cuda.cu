#include "core/ops/gradient_sum_cuda.cuh"
#include "core/ops/pixels_cuda.cuh"
#include "core/ops/spread_pixels.h"

namespace sluice::kernels {

namespace {

/// A thread writes kWidth neighbouring channels of one pixel of dx. added may be null, and second, where no pixel begins at row 1.
template <class T, int kWidth>
__global__ void spread(SpreadPlan plan, const T* first, const T* second, const T* added, T* dx, int64_t threads) {
  const int64_t thread = grid_index();
  if (thread >= threads) return;
  const Pixel pixel(static_cast<unsigned>(thread), plan.channels / kWidth, plan.height, plan.width, kWidth);
  const unsigned stride_h = plan.stride_h, stride_w = plan.stride_w;
  const unsigned row = pixel.row / stride_h, column = pixel.column / stride_w, of = pixel.row - row * stride_h;
  const T* from = of == 0 ? first : of == 1 ? second : nullptr;
  Run<kWidth, T> result{};
  if (from && pixel.column - column * stride_w == of && row < plan.rows && column < plan.columns)
    result = load_run<kWidth>(from + ((pixel.image * plan.rows + row) * plan.columns + column) * plan.channels + pixel.channel);
  if (added) {
    const Run<kWidth, T> before = load_run<kWidth>(added + thread * kWidth);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) result.at[i] = rounded_sum(result.at[i], before.at[i]);
  }
  store_run(dx + thread * kWidth, result);
}

}  // namespace

void spread_pixels(Cuda& cuda, const std::vector<Tensor>& pixels, const SpreadPlan& plan, const Tensor& sum, const Tensor& dx) {
  on_float(dx.dtype(), "spread_pixels", [&]<class T>() {
    const T *first = pixels[0].data<T>(), *second = pixels.size() > 1 ? pixels[1].data<T>() : nullptr;
    const T* added = sum.defined() ? sum.data<T>() : nullptr;
    on_pixels<T>(plan.channels, {first, second, added}, dx, [&]<int kWidth>(dim3 blocks, int64_t threads) {
      launch(cuda, "spread_pixels", {blocks, kPixelThreads}, spread<T, kWidth>, plan, first, second, added, dx.data<T>(), threads);
    });
  });
}

}  // namespace sluice::kernels
