#include "autograd/ops/linear.h"

#include <utility>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/kept_activation.h"
#include "autograd/ops/product_gradient.h"
#include "core/ops/activation.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/linear_gelu.h"
#include "core/ops/matmul.h"
#include "core/ops/padded_rows.h"

namespace sluice {

namespace {

struct LinearShapes {
  Shape x, weight;
};

/// dW = dy^T x of rows of matrices.
Tensor weight_gradient(const Node& node, const Shape& shape, const Tensor& dy, const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return product_gradient(node, 1, shape, dy, x, true, false);
  const Tensor gradient = empty(shape, node.inputs[1]->gradient_dtype(), dy.device_ptr());
  matmul_without_padding(dy, x, gradient, true, false, lengths);
  return gradient;
}

/// dx = dy W,  dW = dy^T x,  dbias = sum of dy's rows; all without padding where there are lengths.
/// Deferred: x and dy stay for dW, a third of the layer's work. dbias reads dy, which stays anyway.
Gradients linear_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &x = node.saved[0], &weight = node.saved[1], &lengths = node.saved[2];
  const auto& shapes = node.attribute<LinearShapes>();
  const Tensor rows = as_padded_matrix(dy);
  Gradients gradients(3);
  if (needs[0]) {
    const Tensor dx = empty({rows.dim(0), shapes.x[-1]}, dy.dtype(), dy.device_ptr());
    if (lengths.defined())
      matmul_without_padding(rows, weight, dx, false, false, lengths);
    else
      matmul_into(rows, weight, dx, false, false, 0);
    gradients[0] = dx.reshape(shapes.x);
  }
  if (needs[1]) gradients[1] = weight_gradient(node, shapes.weight, rows, as_matrix(x.contiguous()), lengths);
  if (needs[2]) gradients[2] = lengths.defined() ? sum_rows(dy, lengths) : sum_rows(rows);
  return gradients;
}

Var record_linear(Tensor y, const Var& x, const Var& weight, const Var& bias, const Tensor& lengths = {}) {
  Needs all = Needs::of(0);
  for (const size_t input : {1, 2}) all.add(input);
  return record("linear", std::move(y), {x, weight, bias}, {x.value(), weight.value(), lengths}, LinearShapes{x.shape(), weight.shape()},
                linear_gradients, {Needs::of(1), Needs::of(0), all});
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

Var linear(const Var& x, const Var& weight, const Var& bias, const Tensor& lengths) {
  return record_linear(linear(x.value(), weight.value(), bias.value(), lengths), x, weight, bias, lengths);
}

// The gradient of an activation in a node of its own cannot be an epilogue: the product before it belongs to the next layer, which may be
// on another device.
Var linear_activation(Unary rule, const Var& x, const Var& weight, const Var& bias, const Tensor& lengths) {
  require(bias.value().defined(), "linear_activation: needs a bias [", weight.dim(0), "], got none; call linear and the activation");
  on_bias_activation(rule, []<class Rule>() {});  // refuses other rules before there is work
  if (lengths.defined()) return unary(rule, linear(x, weight, bias, lengths));
  const auto [y, before] = activated(rule, x.value(), weight.value(), bias.value());
  return record("linear_activation", y, {record_linear(before, x, weight, {}), bias}, {keeps_output(rule) ? y : before}, rule,
                [](const Node& node, const Tensor& dy, Needs needs) {
                  auto [dx, dbias] = bias_activation_backward(node.attribute<Unary>(), node.saved[0], {}, dy, needs[0], needs[1]);
                  return Gradients{dx, dbias};
                });
}

}  // namespace sluice
