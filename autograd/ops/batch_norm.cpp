#include "autograd/ops/batch_norm.h"

namespace sluice {

namespace {

struct BatchNormAttributes {
  double epsilon;
  bool relu, constant;
  auto fields() const { return std::tie(epsilon, relu, constant); }
};

// Not deferred: dx needs the sums that are dgamma and dbeta, and these weigh nothing beside x and dy.
Var record_norm(Tensor y, const Var& x, const Var& gamma, const Var& beta, const Tensor& mean, const Tensor& variance,
                BatchNormAttributes attributes) {
  return record("batch_norm", std::move(y), {x, gamma, beta}, {x.value(), gamma.value(), beta.value(), mean, variance}, attributes,
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& saved = node.saved;
                  const auto& [epsilon, relu, constant] = node.attribute<BatchNormAttributes>();
                  const ChannelNorm norm{saved[1], saved[2], saved[3], saved[4], epsilon, relu};
                  auto [dx, dgamma, dbeta] = batch_norm_backward(dy, saved[0], norm, constant, {needs[0], needs[1] || needs[2]});
                  return Gradients{dx, dgamma, dbeta};
                });
}

}  // namespace

BatchNormalizedVar batch_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon, bool relu) {
  const auto [y, mean, variance] = batch_norm(x.value(), gamma.value(), beta.value(), epsilon, relu);
  return {record_norm(y, x, gamma, beta, mean, variance, {epsilon, relu, false}), mean, variance};
}

Var batch_norm_inference(const Var& x, const Var& gamma, const Var& beta, const Tensor& mean, const Tensor& variance, double epsilon,
                         bool relu) {
  const Tensor y = batch_norm_inference(x.value(), {gamma.value(), beta.value(), mean, variance, epsilon, relu});
  return record_norm(y, x, gamma, beta, mean, variance, {epsilon, relu, true});
}

}  // namespace sluice
