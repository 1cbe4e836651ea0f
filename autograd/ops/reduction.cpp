#include "autograd/ops/reduction.h"

#include <algorithm>

#include "autograd/ops/cast.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "core/ops/elementwise.h"

namespace sluice {

namespace {

struct SumAttributes {
  Shape shape;  ///< of x
  Shape kept;   ///< of the result with the reduced axes kept
  double factor;
  auto fields() const { return std::tie(shape, kept, factor); }
};

Shape kept_shape(const char* op, Shape shape, const std::vector<int>& axes) {
  for (int axis : reduced_axes(op, axes, shape.rank())) shape = shape.with(axis, 1);
  return shape;
}

Var record_sum(const char* op, const Var& x, Tensor y, const std::vector<int>& axes, double factor) {
  return record(op, std::move(y), {x}, {}, SumAttributes{x.shape(), kept_shape(op, x.shape(), axes), factor},
                [](const Node& node, const Tensor& dy, Needs) {
                  const auto& at = node.attribute<SumAttributes>();
                  return Gradients{broadcast_to(dy.contiguous().reshape(at.kept), at.shape, at.factor)};
                });
}

Var max_over(const Var& x, int axis) {
  const Tensor y = max(x.value(), {axis}, true);
  return record("max", y, {x}, {x.value(), y}, axis, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{max_backward(node.saved[0], node.attribute<int>(), node.saved[1], dy)};
  });
}

Var prod_over(const Var& x, int axis) {
  return record("prod", prod(x.value(), {axis}, true), {x}, {x.value()}, axis, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{prod_backward(node.saved[0], node.attribute<int>(), dy)};
  });
}

/// Of several axes as one: where they do not lie side by side, they are brought to the end first.
Var over_merged(const char* op, const Var& x, const std::vector<int>& axes, bool keep, Var (*over)(const Var&, int)) {
  const std::vector<int> reduced = reduced_axes(op, axes, x.rank());
  Shape shape = x.shape();
  for (auto axis = reduced.rbegin(); axis != reduced.rend(); ++axis) shape = keep ? shape.with(*axis, 1) : shape.without(*axis);
  if (reduced.empty()) return reshape(over(reshape(x, {1}), 0), shape);
  const int count = static_cast<int>(reduced.size());
  int first = reduced.front();
  Var ordered = x;
  if (reduced.back() - first >= count) {
    std::vector<int> order;
    for (int axis = 0; axis < x.rank(); ++axis)
      if (!std::ranges::binary_search(reduced, axis)) order.push_back(axis);
    first = static_cast<int>(order.size());
    order.insert(order.end(), reduced.begin(), reduced.end());
    ordered = permute(x, order);
  }
  return reshape(over(count == 1 ? ordered : flatten(ordered, first, first + count - 1), first), shape);
}

}  // namespace

Var sum(const Var& x, std::vector<int> axes, bool keep) { return record_sum("sum", x, sum(x.value(), axes, keep), axes, 1); }

Var mean(const Var& x, std::vector<int> axes, bool keep) {
  const Tensor y = mean(x.value(), axes, keep);
  const double count = static_cast<double>(x.value().elements()) / static_cast<double>(std::max<int64_t>(1, y.elements()));
  return record_sum("mean", x, y, axes, 1 / count);
}

Var prod(const Var& x, std::vector<int> axes, bool keep) { return over_merged("prod", x, axes, keep, prod_over); }

Var max(const Var& x, std::vector<int> axes, bool keep) { return over_merged("max", x, axes, keep, max_over); }

Var min(const Var& x, std::vector<int> axes, bool keep) { return neg(max(neg(x), std::move(axes), keep)); }

Var variance(const Var& x, std::vector<int> axes, bool keep, double correction) {
  const double divisor = variance_divisor(x.shape(), axes, correction);
  const Var wide = cast(x, compute_dtype(x.dtype())), distance = sub(wide, mean(wide, axes, true));
  return cast(div(sum(mul(distance, distance), axes, keep), divisor), x.dtype());
}

}  // namespace sluice
