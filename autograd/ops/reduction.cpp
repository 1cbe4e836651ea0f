#include "autograd/ops/reduction.h"

#include <algorithm>

#include "autograd/ops/cast.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reshape.h"
#include "core/ops/elementwise.h"

namespace sluice {

namespace {

struct SumAttributes {
  Shape shape;  ///< of x
  Shape kept;   ///< of the result with the reduced axes kept
  double factor;
};

bool is_reduced(const char* op, int axis, const std::vector<int>& axes, int rank) {
  return axes.empty() || std::ranges::any_of(axes, [&](int a) { return normal_axis(op, a, rank) == axis; });
}

Shape kept_shape(const char* op, Shape shape, const std::vector<int>& axes) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (is_reduced(op, axis, axes, shape.rank())) shape = shape.with(axis, 1);
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

/// Of one axis after the other, the last first.
Var over_each(const char* op, const Var& x, const std::vector<int>& axes, bool keep, Var (*over)(const Var&, int)) {
  Shape shape = x.shape();
  Var y = x;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (!is_reduced(op, axis, axes, x.shape().rank())) continue;
    y = over(y, axis);
    shape = keep ? shape.with(axis, 1) : shape.without(axis);
  }
  return reshape(y, shape);
}

}  // namespace

Var sum(const Var& x, std::vector<int> axes, bool keep) { return record_sum("sum", x, sum(x.value(), axes, keep), axes, 1); }

Var mean(const Var& x, std::vector<int> axes, bool keep) {
  const Tensor y = mean(x.value(), axes, keep);
  const double count = static_cast<double>(x.value().elements()) / static_cast<double>(std::max<int64_t>(1, y.elements()));
  return record_sum("mean", x, y, axes, 1 / count);
}

// Products of some factors are not rounded before the others are multiplied with them.
Var prod(const Var& x, std::vector<int> axes, bool keep) {
  if (axes.size() == 1) return over_each("prod", x, axes, keep, prod_over);
  return cast(over_each("prod", cast(x, compute_dtype(x.dtype())), axes, keep, prod_over), x.dtype());
}

Var max(const Var& x, std::vector<int> axes, bool keep) { return over_each("max", x, axes, keep, max_over); }

Var min(const Var& x, std::vector<int> axes, bool keep) { return neg(max(neg(x), std::move(axes), keep)); }

Var variance(const Var& x, std::vector<int> axes, bool keep, double correction) {
  const double divisor = variance_divisor(x.shape(), axes, correction);
  const Var wide = cast(x, compute_dtype(x.dtype())), distance = sub(wide, mean(wide, axes, true));
  return cast(div(sum(mul(distance, distance), axes, keep), divisor), x.dtype());
}

}  // namespace sluice
