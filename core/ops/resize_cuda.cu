#include "core/ops/pixels_cuda.cuh"
#include "core/ops/resize.h"

namespace sluice::kernels {

namespace {

template <class T, int kWidth>
__global__ void interpolate(ResizePlan plan, const T* x, T* y, int64_t threads) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= threads) return;
  const Pixel pixel(static_cast<unsigned>(thread), plan.channels / kWidth, plan.rows.out, plan.columns.out, kWidth);
  const auto down = plan.rows.place<C>(pixel.row);
  const auto across = plan.columns.place<C>(pixel.column);
  const T* image = x + pixel.image * plan.rows.in * plan.columns.in * plan.channels + pixel.channel;
  const auto at = [&](int64_t row, int64_t column) { return load_run<kWidth>(image + (row * plan.columns.in + column) * plan.channels); };
  const int64_t lower = plan.rows.after(down.first), right = plan.columns.after(across.first);
  const Run<kWidth, T> corners[4] = {at(down.first, across.first), at(down.first, right), at(lower, across.first), at(lower, right)};
  Run<kWidth, T> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const auto corner = [&](int number) { return static_cast<C>(corners[number].at[i]); };
    const C top = ::fma(across.share, corner(1) - corner(0), corner(0)), bottom = ::fma(across.share, corner(3) - corner(2), corner(2));
    result.at[i] = static_cast<T>(::fma(down.share, bottom - top, top));
  }
  store_run(y + thread * kWidth, result);
}

template <class T, int kWidth>
__global__ void gather_gradients(ResizePlan plan, const T* dy, T* dx, int64_t threads) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= threads) return;
  const Pixel pixel(static_cast<unsigned>(thread), plan.channels / kWidth, plan.rows.in, plan.columns.in, kWidth);
  const T* image = dy + pixel.image * plan.rows.out * plan.columns.out * plan.channels + pixel.channel;
  C sum[kWidth] = {};
  for (int64_t i = plan.rows.begin(pixel.row); i < plan.rows.end(pixel.row); ++i) {
    const C of_row = plan.rows.weight<C>(i, pixel.row);
    if (of_row == 0) continue;
    for (int64_t j = plan.columns.begin(pixel.column); j < plan.columns.end(pixel.column); ++j) {
      const C weight = of_row * plan.columns.weight<C>(j, pixel.column);
      if (weight == 0) continue;
      const Run<kWidth, T> gradient = load_run<kWidth>(image + (i * plan.columns.out + j) * plan.channels);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] = ::fma(weight, static_cast<C>(gradient.at[k]), sum[k]);
    }
  }
  Run<kWidth, T> result;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) result.at[k] = static_cast<T>(sum[k]);
  store_run(dx + thread * kWidth, result);
}

}  // namespace

void resize2d(Cuda& cuda, const Tensor& x, const ResizePlan& plan, const Tensor& y) {
  on_float(x.dtype(), "resize2d", [&]<class T>() {
    on_pixels<T>(plan.channels, {x.data<T>()}, y, [&]<int kWidth>(dim3 blocks, int64_t threads) {
      launch(cuda, "resize2d", {blocks, kPixelThreads}, interpolate<T, kWidth>, plan, x.data<T>(), y.data<T>(), threads);
    });
  });
}

void resize2d_backward(Cuda& cuda, const Tensor& dy, const ResizePlan& plan, const Tensor& dx) {
  on_float(dy.dtype(), "resize2d_backward", [&]<class T>() {
    on_pixels<T>(plan.channels, {dy.data<T>()}, dx, [&]<int kWidth>(dim3 blocks, int64_t threads) {
      launch(cuda, "resize2d_backward", {blocks, kPixelThreads}, gather_gradients<T, kWidth>, plan, dy.data<T>(), dx.data<T>(), threads);
    });
  });
}

}  // namespace sluice::kernels
