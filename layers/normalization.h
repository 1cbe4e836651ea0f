#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis. arXiv 1607.06450.
/// Shape   x [..., width] -> the same; weight, bias [width].
class LayerNorm : public Module {
 public:
  explicit LayerNorm(int64_t width, double epsilon = 1e-5);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t width_;
  double epsilon_;
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight over the last axis. arXiv 1910.07467.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(int64_t width, double epsilon = 1e-5);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t width_;
  double epsilon_;
};

}  // namespace sluice::layers
