#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Repeats every pixel `factor` times along both axes of an image: nearest-neighbour interpolation.
/// Shape   x [B, H, W, C] -> [B, factor H, factor W, C].
class Upsample : public Module {
 public:
  explicit Upsample(int64_t factor);
  Var forward(const Call& call) const override;

 private:
  int64_t factor_;
};

}  // namespace sluice::layers
