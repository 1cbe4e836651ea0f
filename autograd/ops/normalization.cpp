#include "autograd/ops/normalization.h"

#include "core/ops/normalization.h"

namespace sluice {

Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon) {
  NormalizedRows rows = layer_norm(x.value(), gamma.value(), beta.value(), epsilon);
  return record(
      "layer_norm", rows.y, {x, gamma, beta}, {x.value(), gamma.value(), rows.mean, rows.rstd}, {},
      [](const Node& node, const Tensor& dy, Needs needs) {
        const auto& saved = node.saved;
        auto [dx, dgamma, dbeta] = normalization_backward(dy, saved[0], saved[1], saved[2], saved[3], {needs[0], needs[1] || needs[2]});
        return Gradients{dx, dgamma, dbeta};
      });
}

Var rms_norm(const Var& x, const Var& gamma, double epsilon) {
  NormalizedRows rows = rms_norm(x.value(), gamma.value(), epsilon);
  return record("rms_norm", rows.y, {x, gamma}, {x.value(), gamma.value(), rows.rstd}, {},
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& saved = node.saved;
                  auto [dx, dgamma, no_beta] = normalization_backward(dy, saved[0], saved[1], {}, saved[2], {needs[0], needs[1]});
                  return Gradients{dx, dgamma};
                });
}

}  // namespace sluice
