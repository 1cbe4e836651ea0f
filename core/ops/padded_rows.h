#pragma once
#include "core/tensor.h"

namespace sluice {

/// Uninitialised elements whose rows (runs of the last axis) each begin at a multiple of 16 bytes on a device with CUDA's kernels: a view
/// of a wider matrix where the last axis is no multiple of 16 bytes. There cuBLAS has no tensor-core algorithm for other rows, and kernels
/// no 16-byte accesses. What lies between the rows is never initialised. On CPU devices the same as `empty`.
Tensor empty_rows(const Shape& shape, DType dtype, const DevicePtr& device);

/// x [..., N] can be seen as a matrix of rows with unit stride, some stride apart.
bool has_rows(const Tensor& x);
/// ... as far apart as `empty_rows` places them.
bool has_padded_rows(const Tensor& x);

/// x as one node of a model hands it to the next: dense(), but where its rows are padded they stay so, as ops that ask for such rows would
/// copy them back. Those ops, `linear` and `cross_entropy`, give both the same bits; a product of cuBLAS on it may not.
Tensor handed_on(const Tensor& x);

/// x [..., N] as a matrix [rows, N] for which `has_rows` holds: a view of x where that holds for x, else of a row-major copy.
Tensor as_matrix(const Tensor& x);

/// The same with `has_padded_rows`, so that kernels and algorithms chosen by strides are the same for every x of a shape.
Tensor as_padded_matrix(const Tensor& x);

}  // namespace sluice
