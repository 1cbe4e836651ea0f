#pragma once
#include "core/tensor.h"

namespace sluice {

/// Repeats every pixel `factor` times along both axes, cut off to height x width: y[b, i, j, c] = x[b, i / factor, j / factor, c].
/// Shape   x [B, H, W, C] -> y [B, height, width, C], H = ceil(height / factor) and W = ceil(width / factor): what a pool of that stride and
///         padding `same` made smaller gets its size back, odd ones too.
/// Dtypes  f32, f64, bf16.
/// Errors  UsageError for x of another rank or dtype, a factor below 1, or a size that x does not fill.
Tensor upsample2d(const Tensor& x, int64_t factor, int64_t height, int64_t width);

/// dx of shape `x`: the sum over the pixels that each one became, row by row, in f32 for bf16.
Tensor upsample2d_backward(const Tensor& dy, const Shape& x, int64_t factor);

/// Images of one batch before and after; a kernel argument, too.
struct UpsamplePlan {
  int64_t batch, in_h, in_w, out_h, out_w, channels, factor;
};

namespace kernels {
void upsample2d(Cpu& cpu, const Tensor& x, const UpsamplePlan& plan, const Tensor& y);
void upsample2d(Cuda& cuda, const Tensor& x, const UpsamplePlan& plan, const Tensor& y);
void upsample2d_backward(Cpu& cpu, const Tensor& dy, const UpsamplePlan& plan, const Tensor& dx);
void upsample2d_backward(Cuda& cuda, const Tensor& dy, const UpsamplePlan& plan, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
