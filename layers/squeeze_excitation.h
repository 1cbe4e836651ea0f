#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Weighs the channels of an image by what all of it shows: y = x sigmoid(expand(relu(squeeze(mean of x over its pixels)))).
/// Shape   x [B, H, W, channels] -> the same; squeeze.weight [channels / reduction, channels], expand.weight [channels, channels / reduction],
///         with biases. Fewer channels than the reduction are squeezed to one.
/// Source  Hu, Shen, Albanie, Sun, Wu 2017, arXiv:1709.01507.
class SqueezeExcitation : public Composite {
 public:
  explicit SqueezeExcitation(int64_t channels, int64_t reduction = 16);
  Var forward(const Call& call) const override;

 private:
  int squeeze_, expand_;
};

}  // namespace sluice::layers
