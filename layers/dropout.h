#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// In training, zero with probability p, else x / (1 - p); the mask is a function of (seed, step, node, run within it, sample,
/// element). Else x.
/// Shape   x [B, ...] -> the same; axis 0 is the sample.
class Dropout : public Module {
 public:
  explicit Dropout(double p);
  Var forward(const Call& call) const override;

 private:
  double p_;
};

/// y = x + dropout(branch(h)): a residual connection around any module.
/// Inputs  {x} with h = x, or {h, x} when the branch began in an earlier node.
class Residual : public Composite {
 public:
  template <class Branch>
  Residual(Branch branch, double dropout) : branch_(add("", std::move(branch))), dropout_(checked(dropout)) {}
  InputCount input_count() const override { return {1, 2}; }
  Var forward(const Call& call) const override;

 private:
  static double checked(double p);
  int branch_;
  double dropout_;
};

}  // namespace sluice::layers
