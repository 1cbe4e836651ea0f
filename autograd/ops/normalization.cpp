#include "autograd/ops/normalization.h"

#include "core/ops/normalization.h"

namespace sluice {

namespace {

// Not deferred: one pass makes dx, dgamma and dbeta, and two rows of numbers between I and W weigh nothing beside x and dy.

Var record_layer_norm(const NormalizedRows& rows, const Var& x, const Var& gamma, const Var& beta, double epsilon) {
  return record("layer_norm", rows.y, {x, gamma, beta}, {x.value(), gamma.value(), rows.mean, rows.rstd}, epsilon,
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& saved = node.saved;
                  auto [dx, dgamma, dbeta] = normalization_backward(dy, saved[0], saved[1], saved[2], saved[3],
                                                                    {needs[0], needs[1] || needs[2]}, node.take_sum(0));
                  return Gradients{dx, dgamma, dbeta};
                });
}

Var record_rms_norm(const NormalizedRows& rows, const Var& x, const Var& gamma, double epsilon) {
  return record(
      "rms_norm", rows.y, {x, gamma}, {x.value(), gamma.value(), rows.rstd}, epsilon, [](const Node& node, const Tensor& dy, Needs needs) {
        const auto& saved = node.saved;
        auto [dx, dgamma, no_beta] = normalization_backward(dy, saved[0], saved[1], {}, saved[2], {needs[0], needs[1]}, node.take_sum(0));
        return Gradients{dx, dgamma};
      });
}

Var record_sum(const NormalizedRows& rows, const Var& x, const Var& residual) {
  return record("add", rows.sum, {x, residual}, {}, {}, [](const Node&, const Tensor& dy, Needs) { return Gradients{dy, dy}; });
}

}  // namespace

Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon) {
  return record_layer_norm(layer_norm(x.value(), gamma.value(), beta.value(), epsilon), x, gamma, beta, epsilon);
}

Var rms_norm(const Var& x, const Var& gamma, double epsilon) {
  return record_rms_norm(rms_norm(x.value(), gamma.value(), epsilon), x, gamma, epsilon);
}

NormalizedSum add_layer_norm(const Var& x, const Var& residual, const Var& gamma, const Var& beta, double epsilon) {
  const NormalizedRows rows = layer_norm(x.value(), gamma.value(), beta.value(), epsilon, residual.value());
  const Var sum = record_sum(rows, x, residual);
  return {sum, record_layer_norm(rows, sum, gamma, beta, epsilon)};
}

NormalizedSum add_rms_norm(const Var& x, const Var& residual, const Var& gamma, double epsilon) {
  const NormalizedRows rows = rms_norm(x.value(), gamma.value(), epsilon, residual.value());
  const Var sum = record_sum(rows, x, residual);
  return {sum, record_rms_norm(rows, sum, gamma, epsilon)};
}

}  // namespace sluice
