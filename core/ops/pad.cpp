#include "core/ops/pad.h"

#include <span>

#include "core/ops/copy.h"

namespace sluice {

Tensor pad(const Tensor& x, const PadWidths& widths, double value) {
  require(static_cast<int>(widths.size()) == x.rank(), "pad: needs a pair (before, after) for each axis of ", x.shape(), ", got ",
          widths.size(), " pairs");
  std::vector<int64_t> extents;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto [before, after] = widths[axis];
    int64_t extent = x.dim(axis);
    require(before >= 0 && after >= 0, "pad: needs widths of 0 or more, got (", before, ", ", after, ") for axis ", axis,
            "; slice() takes elements away");
    require(!__builtin_add_overflow(extent, before, &extent) && !__builtin_add_overflow(extent, after, &extent), "pad: the extent of axis ",
            axis, " does not fit in 63 bits");
    extents.push_back(extent);
  }
  const Tensor y = full(Shape(std::span<const int64_t>(extents)), value, x.dtype(), x.device_ptr());
  copy(x, unpadded(y, widths));
  return y;
}

Tensor unpadded(const Tensor& y, const PadWidths& widths) {
  Tensor x = y;
  for (int axis = 0; axis < y.rank(); ++axis) x = x.slice(axis, widths[axis].first, y.dim(axis) - widths[axis].second);
  return x;
}

}  // namespace sluice
