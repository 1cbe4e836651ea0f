#pragma once
#include "core/tensor.h"

namespace sluice {

/// y = x W^T + bias over the last axis.
/// Shape   x [..., I], weight [O, I], bias [O] or undefined -> y [..., O].
/// Dtypes  f32, f64, bf16 (sums in f32); all alike.
/// Errors  UsageError naming the shapes.
/// Cost    2 I O FLOPs a row. The product adds the bias while it stores: no pass over y afterwards.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// The gradient of the bias: dy [..., O] summed over all axes but the last -> [O]. Sums in f32 (f64 in f64), rows in order.
Tensor sum_rows(const Tensor& dy);

namespace kernels {
void sum_rows(Cpu& cpu, const Tensor& dy, const Tensor& sum);
}  // namespace kernels

}  // namespace sluice
