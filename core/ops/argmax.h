#pragma once
#include "core/tensor.h"

namespace sluice {

/// Index of the largest element of the last axis, the first of equals; 0 for a row that holds NaN. It has no gradient.
/// Shape   x [..., N], N >= 1  ->  [...], i64.
/// Dtypes  f32, bf16, f64.
/// Errors  UsageError when x is a scalar or N == 0.
Tensor argmax(const Tensor& x);

namespace kernels {
void argmax(Cpu& cpu, const Tensor& x, const Tensor& y);
void argmax(Cuda& cuda, const Tensor& x, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
