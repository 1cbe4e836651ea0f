#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// The elements moved along axes (negative ones count from the end), those beyond the end to the beginning:
/// y[..., (i + shift) % n, ...] = x[..., i, ...]. A shift below 0 moves towards the beginning; those of an axis that comes twice add up.
/// Shape   any -> the same, row-major.
/// Dtypes  all.
/// Errors  UsageError unless there are as many shifts as axes; for an axis that is not there.
/// Cost    one copy, in 2^k parts where k axes are moved.
Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& axes);

}  // namespace sluice
