#pragma once
#include "core/tensor.h"

namespace sluice {

/// to = from, element by element, through both tensors' strides and dtypes (the cast rounds to nearest; float to integer truncates).
/// Shape   equal shapes, any strides; those of 0, which expand() makes, in `from` alone.
/// Dtypes  all.
/// Devices any two; between the host and a GPU the target must be contiguous, and a copy to the host waits for the GPU.
/// Errors  UsageError when shapes differ, the target repeats elements or is another view of elements that are read, or only one device is
///         `meta`.
void copy(const Tensor& from, const Tensor& to);

/// A row-major copy in another dtype; `x` itself when it has that dtype already.
Tensor cast(const Tensor& x, DType dtype);

/// Sets every element. The tensor must be contiguous.
void fill(const Tensor& x, double value);

namespace kernels {
void copy(Cpu& cpu, const Tensor& from, const Tensor& to);
void copy(Cuda& cuda, const Tensor& from, const Tensor& to);
void fill(Cpu& cpu, const Tensor& x, double value);
void fill(Cuda& cuda, const Tensor& x, double value);
}  // namespace kernels

}  // namespace sluice
