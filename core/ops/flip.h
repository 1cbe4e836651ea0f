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

}  // namespace sluice
