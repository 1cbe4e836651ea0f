#pragma once
#include "core/shape.h"
#include "core/tensor.h"

namespace sluice {

// Indices are i32, i64 or u8 in [0, n), n the extent of the axis. One outside is a UsageError that names it and its position in the index:
// on the CPU at once, on a GPU at the next synchronize(), where its elements are NaN (0 of integers) until then.

/// One element for each index:  y[..., j, ...] = x[..., index[..., j, ...], ...].
/// Shape   x, index equal but for the axis -> y of index's shape, row-major.
/// Dtypes  all.
/// Errors  UsageError for shapes that differ in another axis, and a bad index.
Tensor gather(const Tensor& x, int axis, const Tensor& index);

/// Whole slices of an axis:  y[..., j, ...] = x[..., index[j], ...].
/// Shape   x, index [M] -> M along the axis; row-major.
/// Dtypes, Errors  those of gather.
Tensor index_select(const Tensor& x, int axis, const Tensor& index);

/// x with source added where gather would read:  y[..., index[..., j, ...], ...] += source[..., j, ...], in the order of j, so that equal
/// indices give the same bits every time.
/// Shape   x, index equal but for the axis, source of index's shape -> y of x's shape, row-major.
/// Dtypes  f32, bf16, f64, sums in f32 (f64 for f64); source of x's dtype.
/// Errors  UsageError for other shapes or dtypes, and a bad index.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);

/// The same with whole slices:  y[..., index[j], ...] += source[..., j, ...], in the order of j. index [M], source with M along the axis.
Tensor index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);

/// The gradients of gather and index_select:  dy added to zeros with extent n along the axis, in the dtype of the arithmetic.
Tensor gather_backward(const Tensor& dy, int axis, const Tensor& index, int64_t n);
Tensor index_select_backward(const Tensor& dy, int axis, const Tensor& index, int64_t n);

/// x [outer, n, inner], of which an index takes m elements along n: index [outer, m, inner], or [m] where it takes whole slices.
struct GatherView {
  int64_t outer, n, m, inner;
  bool takes_slices;
};

namespace kernels {
/// y [outer, m, inner] of x's dtype; all row-major.
void gather(Cpu& cpu, const GatherView& view, const Tensor& x, const Tensor& index, const Tensor& y);
void gather(Cuda& cuda, const GatherView& view, const Tensor& x, const Tensor& index, const Tensor& y);
/// sums [outer, n, inner], in the type of arithmetic, += source [outer, m, inner]; all row-major.
void scatter_add(Cpu& cpu, const GatherView& view, const Tensor& index, const Tensor& source, const Tensor& sums);
void scatter_add(Cuda& cuda, const GatherView& view, const Tensor& index, const Tensor& source, const Tensor& sums);
/// Whether all indices are in [0, n): the error of a bad one, and nothing else.
void check_indices(Cpu& cpu, const Tensor& index, int64_t n);
void check_indices(Cuda& cuda, const Tensor& index, int64_t n);
}  // namespace kernels

}  // namespace sluice
