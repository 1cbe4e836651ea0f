#include "autograd/ops/repeat.h"

#include "core/ops/copy.h"
#include "core/ops/reduction.h"

namespace sluice {

namespace {

struct RepeatAttributes {
  Shape shape;
  std::vector<int64_t> counts;
};

/// The sums of the tiles, an axis at a time, in the dtype of the arithmetic.
Gradients repeat_gradients(const Node& node, const Tensor& dy, Needs) {
  const auto& [shape, counts] = node.attribute<RepeatAttributes>();
  const int added = dy.rank() - shape.rank();
  Tensor sums = cast(dy, compute_dtype(dy.dtype())).contiguous();
  for (int axis = 0; axis < dy.rank(); ++axis) {
    if (counts[axis] == 1) continue;
    const Shape tile = sums.shape().with(axis, axis < added ? 1 : shape[axis - added]);
    const AxisView view(tile, axis);
    sums = sum(sums.reshape({view.outer, counts[axis], view.n * view.inner}), {1}).reshape(tile);
  }
  return {sums.reshape(shape)};
}

}  // namespace

Var repeat(const Var& x, const std::vector<int64_t>& counts) {
  return record_moved("repeat", repeat(x.value(), counts), {x}, RepeatAttributes{x.shape(), counts}, repeat_gradients);
}

}  // namespace sluice
