#include "core/ops/adaptive_pooling.h"
#include "core/ops/pixels_cuda.cuh"

namespace sluice::kernels {

namespace {

template <class T, int kWidth>
__global__ void average_places(AdaptivePlan plan, const T* x, T* y, int64_t threads) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= threads) return;
  const Pixel pixel(static_cast<unsigned>(thread), plan.channels / kWidth, plan.rows.out, plan.columns.out, kWidth);
  const IndexRange down = plan.rows.pixels(pixel.row), across = plan.columns.pixels(pixel.column);
  const T* image = x + int64_t{pixel.image} * plan.rows.in * plan.columns.in * plan.channels + pixel.channel;
  C sum[kWidth] = {};
  for (int64_t i = down.begin; i < down.end; ++i)
    for (int64_t j = across.begin; j < across.end; ++j) {
      const Run<kWidth, T> values = load_run<kWidth>(image + (i * plan.columns.in + j) * plan.channels);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] += static_cast<C>(values.at[k]);
    }
  const C share = C(1) / static_cast<C>((down.end - down.begin) * (across.end - across.begin));
  Run<kWidth, T> result;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) result.at[k] = static_cast<T>(sum[k] * share);
  store_run(y + thread * kWidth, result);
}

template <class T, int kWidth>
__global__ void gather_shares(AdaptivePlan plan, const T* dy, T* dx, int64_t threads) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= threads) return;
  const Pixel pixel(static_cast<unsigned>(thread), plan.channels / kWidth, plan.rows.in, plan.columns.in, kWidth);
  const IndexRange down = plan.rows.places(pixel.row), across = plan.columns.places(pixel.column);
  const T* image = dy + int64_t{pixel.image} * plan.rows.out * plan.columns.out * plan.channels + pixel.channel;
  C sum[kWidth] = {};
  for (int64_t i = down.begin; i < down.end; ++i) {
    const int64_t pixels_down = plan.rows.pixel_count(i);
    for (int64_t j = across.begin; j < across.end; ++j) {
      const C share = C(1) / static_cast<C>(pixels_down * plan.columns.pixel_count(j));
      const Run<kWidth, T> gradient = load_run<kWidth>(image + (i * plan.columns.out + j) * plan.channels);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] = ::fma(share, static_cast<C>(gradient.at[k]), sum[k]);
    }
  }
  Run<kWidth, T> result;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) result.at[k] = static_cast<T>(sum[k]);
  store_run(dx + thread * kWidth, result);
}

}  // namespace

void adaptive_average_pool2d(Cuda& cuda, const Tensor& x, const AdaptivePlan& plan, const Tensor& y) {
  on_float(x.dtype(), "adaptive_average_pool2d", [&]<class T>() {
    on_pixels<T>(plan.channels, {x.data<T>()}, y, [&]<int kWidth>(dim3 blocks, int64_t threads) {
      launch(cuda, "adaptive_average_pool2d", {blocks, kPixelThreads}, average_places<T, kWidth>, plan, x.data<T>(), y.data<T>(), threads);
    });
  });
}

void adaptive_average_pool2d_backward(Cuda& cuda, const Tensor& dy, const AdaptivePlan& plan, const Tensor& dx) {
  on_float(dy.dtype(), "adaptive_average_pool2d_backward", [&]<class T>() {
    on_pixels<T>(plan.channels, {dy.data<T>()}, dx, [&]<int kWidth>(dim3 blocks, int64_t threads) {
      launch(cuda, "adaptive_average_pool2d_backward", {blocks, kPixelThreads}, gather_shares<T, kWidth>, plan, dy.data<T>(), dx.data<T>(),
             threads);
    });
  });
}

}  // namespace sluice::kernels
