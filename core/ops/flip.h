#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// The elements in reverse order along a list of axes (negative ones count from the end).
/// Shape   any -> the same, row-major.
/// Dtypes  all.
/// Errors  UsageError for an axis that is not there.
/// Cost    one copy.
Tensor flip(const Tensor& x, const std::vector<int>& axes);

/// Each sample's items in reverse order, behind which its padding stays where it is:  y[b, t] = x[b, n - 1 - t] for t < n = lengths[b].
/// Shape   x [B, T, ...], lengths i32 [B] -> the same, row-major.
/// Dtypes  all.
/// Errors  UsageError naming the shapes; a length beyond T as gather's bad index, one below 0 counts as 0.
/// Cost    one copy, which reads an index of four bytes an element.
Tensor flip_items(const Tensor& x, const Tensor& lengths);

}  // namespace sluice
