#pragma once
#include "core/ops/elementwise_operands.h"
#include "core/tensor.h"

namespace sluice {

/// y = a where the condition is not 0, else b, element by element with broadcasting of all three after NumPy's rule.
/// Shape   condition, a and b broadcast to y, row-major; any strides, no operand is copied.
/// Dtypes  condition u8; a and b all, both the same. A number takes the dtype of the tensor.
/// Errors  UsageError when shapes do not broadcast, dtypes or devices differ, or a number beside integers is not one of them.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
inline Tensor where(const Tensor& condition, const Tensor& a, double b) { return where(condition, a, number_like("where", a, b)); }
inline Tensor where(const Tensor& condition, double a, const Tensor& b) { return where(condition, number_like("where", b, a), b); }

/// The number where the mask is not 0, else x. Errors  UsageError when the mask does not broadcast to the shape of x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double number);

/// 1 where column - row <= diagonal, else 0: a lower triangle, for masks.
/// Shape   -> u8 [rows, columns].
Tensor triangle(int64_t rows, int64_t columns, int64_t diagonal = 0, const DevicePtr& device = default_device());

/// The matrices of the last two axes, with 0 above the diagonal (tril) or below it (triu): diagonal 1 is the one above the main one.
/// Shape   x [..., rows, columns] -> the same, row-major.
/// Dtypes  all.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

/// 1 on the diagonal, else 0. Shape  -> [n, n].
Tensor eye(int64_t n, DType dtype = DType::f32, const DevicePtr& device = default_device());

namespace kernels {
void where(Cpu& cpu, const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y);
void where(Cuda& cuda, const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
