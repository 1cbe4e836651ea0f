#include "autograd/ops/linear.h"

#include <utility>

#include "core/ops/activation.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear_gelu.h"
#include "core/ops/matmul.h"
#include "core/ops/padded_rows.h"

namespace sluice {

namespace {

struct LinearShapes {
  Shape x, weight;
};

/// dx = dy W,  dW = dy^T x,  dbias = sum of dy's rows.
/// Deferred: x and dy stay for dW, a third of the layer's work. dbias reads dy, which stays anyway.
Gradients linear_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &x = node.saved[0], &weight = node.saved[1];
  const auto& shapes = node.attribute<LinearShapes>();
  const Tensor rows = as_padded_matrix(dy);
  Gradients gradients(3);
  if (needs[0]) gradients[0] = matmul(rows, weight).reshape(shapes.x);
  // Not into the accumulator: a product that adds to sums outside the cache is slower than a product and a pass (docs/performance.md).
  if (needs[1]) {
    gradients[1] = empty(shapes.weight, node.inputs[1]->gradient_dtype(), dy.device_ptr());
    matmul_into(rows, as_matrix(x.contiguous()), gradients[1], true, false, 0);
  }
  if (needs[2]) gradients[2] = sum_rows(rows);
  return gradients;
}

Var record_linear(Tensor y, const Var& x, const Var& weight, const Var& bias) {
  return record("linear", std::move(y), {x, weight, bias}, {x.value(), weight.value()}, LinearShapes{x.shape(), weight.shape()},
                linear_gradients, {Needs::of(1), Needs::of(0)});
}

/// The activation and what it is of.
std::pair<Tensor, Tensor> activated(Unary rule, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (rule == Unary::GeluTanh) {
    const auto [y, before] = linear_gelu(x, weight, bias);
    return {y, before};
  }
  const Tensor before = linear(x, weight, bias);
  return {unary(rule, before), before};
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias) {
  return record_linear(linear(x.value(), weight.value(), bias.value()), x, weight, bias);
}

// The gradient of an activation in a node of its own cannot be an epilogue: the product before it belongs to the next layer, which may be
// on another device.
Var linear_activation(Unary rule, const Var& x, const Var& weight, const Var& bias) {
  require(bias.value().defined(), "linear_activation: needs a bias [", weight.dim(0), "], got none; call linear and the activation");
  on_bias_activation(rule, []<class Rule>() {});  // refuses other rules before there is work
  const auto [y, before] = activated(rule, x.value(), weight.value(), bias.value());
  return record("linear_activation", y, {record_linear(before, x, weight, {}), bias}, {before}, rule,
                [](const Node& node, const Tensor& dy, Needs needs) {
                  auto [dx, dbias] = bias_activation_backward(node.attribute<Unary>(), node.saved[0], {}, dy, needs[0], needs[1]);
                  return Gradients{dx, dbias};
                });
}

}  // namespace sluice
