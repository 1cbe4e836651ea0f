#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with mean and variance of a sample's runs of channels / groups channels over
/// all its pixels: as in evaluation so in training, and the same for every size of a micro-batch.
/// Shape   x [B, ..., channels] -> the same; weight, bias [channels].
/// Cost    two copies of x, which bring a group's elements together, beside the passes of layer_norm; one group needs none.
/// Errors  UsageError unless the groups divide the channels; for x of other channels.
/// Source  Wu, He 2018, arXiv:1803.08494.
class GroupNorm : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels, double epsilon = 1e-5);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t groups_, channels_;
  double epsilon_;
};

/// GroupNorm with a group a channel. Source  Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.
inline GroupNorm InstanceNorm(int64_t channels, double epsilon = 1e-5) { return {channels, channels, epsilon}; }

}  // namespace sluice::layers
