#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Makes images `factor` times as large along both axes.
/// Kinds   nearest: every pixel repeated, see upsample2d(). bilinear: see resize2d().
/// Shape   x [B, H, W, C] -> [B, factor H, factor W, C].
class Upsample : public Module {
 public:
  enum class Kind { nearest, bilinear };
  explicit Upsample(int64_t factor, Kind kind = Kind::nearest);
  Var forward(const Call& call) const override;

 private:
  int64_t factor_;
  Kind kind_;
};

}  // namespace sluice::layers
