#pragma once
#include "layers/module.h"

namespace sluice::layers {

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.9;    ///< of the running statistics: what is kept of them at each mini-batch
  bool relu = false;        ///< y = max(y, 0) after it, in the same pass
  bool zero_gamma = false;  ///< gamma starts at 0 instead of 1, so that a residual branch that ends here starts as nothing
};

/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, channel by channel. arXiv 1502.03167.
/// Shape   x [..., channels] -> the same; gamma, beta [channels].
/// In training mean and variance are the micro-batch's own: of one element a channel, such as a single sample without pixels, beta alone is
/// left, and nothing before it is trained. In evaluation they are the running statistics, which follow those of each mini-batch once
/// (update_running_statistics).
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, BatchNormOptions options = {});
  std::vector<ParameterSpec> parameters() const override;
  std::vector<StatisticsSpec> statistics() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t channels_;
  BatchNormOptions options_;
};

}  // namespace sluice::layers
