#include "core/ops/repeat.h"

namespace sluice {

Tensor repeat(const Tensor& x, const std::vector<int64_t>& counts) {
  const int rank = static_cast<int>(counts.size());
  require(rank >= x.rank(), "repeat: needs a count for each axis of ", x.shape(), ", got ", rank, " counts");
  Tensor y = x.contiguous();
  while (y.rank() < rank) y = y.unsqueeze(0);
  for (int axis = rank - 1; axis >= 0; --axis) {
    const int64_t count = counts[axis];
    require(count >= 0, "repeat: needs counts of 0 or more, got ", count, " for axis ", axis);
    if (count == 1) continue;
    const AxisView view(y.shape(), axis);
    const Shape tiles{view.outer, count, view.n, view.inner};  // refused where there are too many
    y = y.reshape(tiles.with(1, 1)).expand(tiles).clone().reshape(y.shape().with(axis, view.n * count));
  }
  return y;
}

}  // namespace sluice
