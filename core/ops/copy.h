#pragma once
#include "core/tensor.h"

namespace sluice {

/// to = from, element by element, through both tensors' strides and dtypes (the cast rounds to nearest; float to integer truncates).
/// Shape   equal shapes, any strides.
/// Dtypes  all.
/// Errors  UsageError when shapes or devices differ.
void copy(const Tensor& from, const Tensor& to);

/// A row-major copy in another dtype; `x` itself when it has that dtype already.
Tensor cast(const Tensor& x, DType dtype);

/// Sets every element. The tensor must be contiguous.
void fill(const Tensor& x, double value);

namespace kernels {
void copy(Cpu& cpu, const Tensor& from, const Tensor& to);
void fill(Cpu& cpu, const Tensor& x, double value);
}  // namespace kernels

}  // namespace sluice
