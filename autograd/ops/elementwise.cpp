#include "autograd/ops/elementwise.h"

#include "autograd/ops/broadcast_gradient.h"
#include "autograd/ops/kept_activation.h"

namespace sluice {

// None of these defers: a parameter's gradient is at most as large as dy alone, which it would keep, and takes one pass over memory.
Var unary(Unary rule, const Var& x) {
  const Tensor y = unary(rule, x.value());
  return record("unary", y, {x}, {keeps_output(rule) ? y : x.value()}, rule, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{unary_backward(node.attribute<Unary>(), node.saved[0], dy, node.take_sum(0))};
  });
}

namespace {

/// The value of an operand, kept only when the other operand's gradient will read it.
Tensor kept_for(const Var& reader, const Tensor& value) { return reader.node() ? value : Tensor(); }

/// y = slope * x + anything.
Var linear_in(const char* op, const Var& x, Tensor y, double slope) {
  return record(op, std::move(y), {x}, {}, slope, [](const Node& node, const Tensor& dy, Needs) {
    const double factor = node.attribute<double>();
    return Gradients{factor == 1 ? dy : scale(dy, factor)};
  });
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

// da = dy b a^(b - 1),  db = dy a^b log(a).
Var pow(const Var& a, const Var& b) {
  return record("pow", pow(a.value(), b.value()), {a, b}, {a.value(), b.value()}, shapes_of(a, b),
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& [a_shape, b_shape] = node.attribute<Shapes>();
                  const Tensor &base = node.saved[0], &exponent = node.saved[1];
                  const auto by = [&](Binary slope) { return mul(dy, binary(slope, base, exponent)); };
                  return Gradients{needs[0] ? summed(node, 0, by(Binary::PowByBase), a_shape) : Tensor(),
                                   needs[1] ? summed(node, 1, by(Binary::PowByExponent), b_shape) : Tensor()};
                });
}

namespace {

/// With the larger one of saved as the first, da is the first one's share.
Var record_extreme(const char* op, Tensor y, const Var& a, const Var& b, std::vector<Tensor> saved) {
  return record(op, std::move(y), {a, b}, std::move(saved), shapes_of(a, b), [](const Node& node, const Tensor& dy, Needs needs) {
    const auto& [a_shape, b_shape] = node.attribute<Shapes>();
    const auto share = [&](int of, int against) { return mul(dy, binary(Binary::ShareOfLarger, node.saved[of], node.saved[against])); };
    return Gradients{needs[0] ? summed(node, 0, share(0, 1), a_shape) : Tensor(),
                     needs[1] ? summed(node, 1, share(1, 0), b_shape) : Tensor()};
  });
}

}  // namespace

Var maximum(const Var& a, const Var& b) { return record_extreme("maximum", maximum(a.value(), b.value()), a, b, {a.value(), b.value()}); }

// a's share of the smaller one is what b has of the larger one.
Var minimum(const Var& a, const Var& b) { return record_extreme("minimum", minimum(a.value(), b.value()), a, b, {b.value(), a.value()}); }

// da = dy or b dy, db = dy min(a, 0).
Var prelu(const Var& a, const Var& b) {
  return record("prelu", prelu(a.value(), b.value()), {a, b}, {a.value(), kept_for(a, b.value())}, shapes_of(a, b),
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& [a_shape, b_shape] = node.attribute<Shapes>();
                  const Tensor &x = node.saved[0], &slope = node.saved[1];
                  return Gradients{needs[0] ? summed(node, 0, mul(dy, binary(Binary::PreluByInput, x, slope)), a_shape) : Tensor(),
                                   needs[1] ? summed(node, 1, mul(dy, clamp_max(x, 0)), b_shape) : Tensor()};
                });
}

Var add(const Var& x, double number) { return linear_in("add", x, add(x.value(), number), 1); }
Var sub(const Var& x, double number) { return linear_in("sub", x, sub(x.value(), number), 1); }
Var sub(double number, const Var& x) { return linear_in("sub", x, sub(number, x.value()), -1); }
Var mul(const Var& x, double number) { return linear_in("mul", x, mul(x.value(), number), number); }
Var affine(const Var& x, double factor, double offset) { return linear_in("affine", x, affine(x.value(), factor, offset), factor); }
Var scale(const Var& x, double factor) { return linear_in("scale", x, scale(x.value(), factor), factor); }

Var div(const Var& x, double number) {
  return record("div", div(x.value(), number), {x}, {}, number,
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{div(dy, node.attribute<double>())}; });
}

Var div(double number, const Var& x) {
  return record("div", div(number, x.value()), {x}, {x.value()}, number, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{unary_backward(Unary::Reciprocal, node.saved[0], scale(dy, node.attribute<double>()))};
  });
}

Var pow(const Var& x, double exponent) {
  if (exponent == 2) return square(x);
  return record("pow", pow(x.value(), exponent), {x}, {x.value()}, exponent, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{pow_backward(node.saved[0], node.attribute<double>(), dy)};
  });
}

Var leaky_relu(const Var& x, double slope) {
  const Tensor y = leaky_relu(x.value(), slope);
  const Tensor& kept = slope > 0 ? y : x.value();  // the one that the next op keeps, if it is above 0 where x is
  return record("leaky_relu", y, {x}, {kept}, slope, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{leaky_relu_backward(node.saved[0], node.attribute<double>(), dy, node.take_sum(0))};
  });
}

Var elu(const Var& x, double alpha) {
  return record("elu", elu(x.value(), alpha), {x}, {x.value()}, alpha, [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{elu_backward(node.saved[0], node.attribute<double>(), dy, node.take_sum(0))};
  });
}

Var clamp(const Var& x, double low, double high) {
  const Tensor y = clamp(x.value(), low, high);
  return record("clamp", y, {x}, {y}, std::pair(low, high), [](const Node& node, const Tensor& dy, Needs) {
    const auto& [lowest, highest] = node.attribute<std::pair<double, double>>();
    return Gradients{clamp_backward(node.saved[0], dy, lowest, highest)};
  });
}

}  // namespace sluice
