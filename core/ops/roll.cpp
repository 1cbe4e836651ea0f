#include "core/ops/roll.h"

#include "core/ops/copy.h"

namespace sluice {

namespace {

/// Copies x to y moved along `axis` and those after it, by 0 <= shift < extent each.
void copy_moved(const Tensor& x, const Tensor& y, const std::vector<int64_t>& shifts, int axis) {
  while (axis < x.rank() && shifts[axis] == 0) ++axis;
  if (axis == x.rank()) return copy(x, y);
  const int64_t shift = shifts[axis], n = x.dim(axis);
  copy_moved(x.slice(axis, 0, n - shift), y.slice(axis, shift, n), shifts, axis + 1);
  copy_moved(x.slice(axis, n - shift, n), y.slice(axis, 0, shift), shifts, axis + 1);
}

}  // namespace

Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& axes) {
  require(shifts.size() == axes.size(), "roll: needs a shift for each axis, got ", shifts.size(), " shifts and ", axes.size(),
          " axes; reshape x to one axis to move all elements as one row");
  std::vector<int64_t> by_axis(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = normal_axis("roll", axes[i], x.rank());
    const int64_t n = x.dim(axis);
    if (n > 0) by_axis[axis] = (by_axis[axis] + shifts[i] % n + n) % n;
  }
  Tensor y = empty_like(x);
  copy_moved(x, y, by_axis, 0);
  return y;
}

}  // namespace sluice
