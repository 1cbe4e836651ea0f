#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// x laid out counts[i] times along each axis, as tiles: repeat([1, 2], {2}) = [1, 2, 1, 2]. More counts than axes add axes in front.
/// Shape   extents times counts; row-major.
/// Dtypes  all.
/// Errors  UsageError for fewer counts than axes, or a negative one.
/// Cost    a copy for each axis that is repeated, the innermost first. Tensor::expand repeats without one along axes of extent 1.
Tensor repeat(const Tensor& x, const std::vector<int64_t>& counts);

}  // namespace sluice
