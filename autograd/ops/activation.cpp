#include "autograd/ops/activation.h"

#include "autograd/ops/kept_activation.h"

namespace sluice {

// Not deferred: one pass makes dx and dbias, which weighs nothing beside x and dy.
Var bias_activation(Unary rule, const Var& x, const Var& bias) {
  const Tensor y = bias_activation(rule, x.value(), bias.value());
  const std::vector<Tensor> kept = keeps_output(rule) ? std::vector{y, Tensor()} : std::vector{x.value(), bias.value()};
  return record("bias_activation", y, {x, bias}, kept, rule, [](const Node& node, const Tensor& dy, Needs needs) {
    auto [dx, dbias] = bias_activation_backward(node.attribute<Unary>(), node.saved[0], node.saved[1], dy, needs[0], needs[1]);
    return Gradients{dx, dbias};
  });
}

Var mul_silu(const Var& a, const Var& b) {
  return record("mul_silu", mul_silu(a.value(), b.value()), {a, b}, {a.value(), b.value()}, {},
                [](const Node& node, const Tensor& dy, Needs needs) {
                  auto [da, db] = mul_silu_backward(node.saved[0], node.saved[1], dy, needs[0], needs[1]);
                  return Gradients{da, db};
                });
}

}  // namespace sluice
