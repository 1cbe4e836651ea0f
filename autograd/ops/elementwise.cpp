#include "autograd/ops/elementwise.h"

#include "core/ops/copy.h"
#include "core/ops/reduction.h"

namespace sluice {

// None of these defers: a parameter's gradient is at most as large as dy alone, which it would keep, and takes one pass over memory.
Var unary(Unary rule, const Var& x) {
  return record("unary", unary(rule, x.value()), {x}, {x.value()}, rule, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{unary_backward(node.attribute<Unary>(), node.saved[0], dy)};
  });
}

namespace {

using Shapes = std::pair<Shape, Shape>;

Shapes shapes_of(const Var& a, const Var& b) { return {a.shape(), b.shape()}; }

/// The value of an operand, kept only when the other operand's gradient will read it.
Tensor kept_for(const Var& reader, const Tensor& value) { return reader.node() ? value : Tensor(); }

/// The gradient of an operand that was broadcast from `shape`; a parameter's is summed in its gradient's dtype.
Tensor summed(const Node& node, size_t input, const Tensor& gradient, const Shape& shape) {
  return sum_to(cast(gradient, node.inputs[input]->gradient_dtype()), shape);
}

}  // namespace

Var add(const Var& a, const Var& b) {
  return record("add", add(a.value(), b.value()), {a, b}, {}, shapes_of(a, b), [](const Node& node, const Tensor& dy, Needs needs) {
    const auto& [a_shape, b_shape] = node.attribute<Shapes>();
    return Gradients{needs[0] ? summed(node, 0, dy, a_shape) : Tensor(), needs[1] ? summed(node, 1, dy, b_shape) : Tensor()};
  });
}

Var sub(const Var& a, const Var& b) {
  return record("sub", sub(a.value(), b.value()), {a, b}, {}, shapes_of(a, b), [](const Node& node, const Tensor& dy, Needs needs) {
    const auto& [a_shape, b_shape] = node.attribute<Shapes>();
    return Gradients{needs[0] ? summed(node, 0, dy, a_shape) : Tensor(), needs[1] ? neg(summed(node, 1, dy, b_shape)) : Tensor()};
  });
}

Var mul(const Var& a, const Var& b) {
  return record("mul", mul(a.value(), b.value()), {a, b}, {kept_for(b, a.value()), kept_for(a, b.value())}, shapes_of(a, b),
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& [a_shape, b_shape] = node.attribute<Shapes>();
                  return Gradients{needs[0] ? summed(node, 0, mul(dy, node.saved[1]), a_shape) : Tensor(),
                                   needs[1] ? summed(node, 1, mul(dy, node.saved[0]), b_shape) : Tensor()};
                });
}

// da = dy / b,  db = -dy y / b.
Var div(const Var& a, const Var& b) {
  const Tensor y = div(a.value(), b.value());
  return record("div", y, {a, b}, {b.value(), kept_for(b, y)}, shapes_of(a, b), [](const Node& node, const Tensor& dy, Needs needs) {
    const auto& [a_shape, b_shape] = node.attribute<Shapes>();
    const Tensor quotient = div(dy, node.saved[0]);
    return Gradients{needs[0] ? summed(node, 0, quotient, a_shape) : Tensor(),
                     needs[1] ? neg(summed(node, 1, mul(quotient, node.saved[1]), b_shape)) : Tensor()};
  });
}

Var scale(const Var& x, double factor) {
  return record("scale", scale(x.value(), factor), {x}, {}, factor,
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{scale(dy, node.attribute<double>())}; });
}

Var clamp(const Var& x, double low, double high) {
  const Tensor y = clamp(x.value(), low, high);
  return record("clamp", y, {x}, {y}, std::pair(low, high), [](const Node& node, const Tensor& dy, Needs) {
    const auto& [lowest, highest] = node.attribute<std::pair<double, double>>();
    return Gradients{clamp_backward(node.saved[0], dy, lowest, highest)};
  });
}

}  // namespace sluice
