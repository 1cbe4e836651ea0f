#include "layers/batch_norm.h"

#include "autograd/ops/batch_norm.h"

namespace sluice::layers {

BatchNorm::BatchNorm(int64_t channels, BatchNormOptions options) : channels_(channels), options_(options) {
  require(channels > 0 && options.epsilon > 0, "BatchNorm: needs channels and an epsilon > 0, got ", channels, " and ", options.epsilon);
  require(options.momentum >= 0 && options.momentum < 1, "BatchNorm: needs a momentum in [0, 1), got ", options.momentum);
}

std::vector<ParameterSpec> BatchNorm::parameters() const {
  const Initializer gamma = options_.zero_gamma ? Initializer::zeros() : Initializer::ones();
  return {{"gamma", {channels_}, gamma, false}, {"beta", {channels_}, Initializer::zeros(), false}};
}

std::vector<StatisticsSpec> BatchNorm::statistics() const { return {{"", channels_, options_.momentum}}; }

Var BatchNorm::forward(const Call& call) const {
  const Var &gamma = call.parameters[0], &beta = call.parameters[1], x = in_working_dtype(call.inputs[0], gamma);
  if (call.training) {
    const auto [y, mean, variance] = batch_norm(x, gamma, beta, options_.epsilon, options_.relu);
    if (!call.observed.empty()) call.observed[0].push_back({mean, variance, x.value().elements() / channels_});
    return y;
  }
  require(call.statistics.size() == 1, "BatchNorm: needs its running statistics for evaluation, got none");
  const auto& running = call.statistics[0];
  return batch_norm_inference(x, gamma, beta, running.mean, running.variance, options_.epsilon, options_.relu);
}

}  // namespace sluice::layers
