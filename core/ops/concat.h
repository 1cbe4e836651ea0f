#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// The parts one after the other along an axis.
/// Shape   parts equal but for that axis -> their extents summed there; row-major.
/// Dtypes  all; the parts share one.
/// Errors  UsageError for no parts, or parts of different shape, dtype or device.
Tensor concat(const std::vector<Tensor>& parts, int axis);

/// Views of consecutive ranges of an axis, of the given sizes.
/// Errors  UsageError unless the sizes add up to the axis.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis);

}  // namespace sluice
