#pragma once
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// Elements of one value added before and after x along each axis.
using PadWidths = std::vector<std::pair<int64_t, int64_t>>;

/// x within a larger tensor of `value`: pad(x, {{0, 0}, {1, 2}}) adds a column before the first and two after the last.
/// Shape   x, and one pair an axis -> each extent + before + after; row-major.
/// Dtypes  all.
/// Errors  UsageError for another number of pairs, or a negative one.
Tensor pad(const Tensor& x, const PadWidths& widths, double value = 0);

/// The view of y = pad(x, widths) in which x lies.
Tensor unpadded(const Tensor& y, const PadWidths& widths);

}  // namespace sluice
