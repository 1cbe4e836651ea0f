#pragma once
#include "core/tensor.h"

namespace sluice {

/// Index of the largest element of an axis, the first of equals; 0 for a row that holds NaN. It has no gradient.
/// Shape   x [..., N, ...], N >= 1  ->  [..., ...], i64.
/// Dtypes  f32, bf16, f64.
/// Errors  UsageError when x is a scalar or N == 0.
/// Cost    one pass, and a copy for another axis than the last.
Tensor argmax(const Tensor& x, int axis = -1);
/// The same of the smallest element: argmax(-x).
Tensor argmin(const Tensor& x, int axis = -1);

namespace kernels {
void argmax(Cpu& cpu, const Tensor& x, const Tensor& y);
void argmax(Cuda& cuda, const Tensor& x, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
