#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// In training, zero with probability p, else x / (1 - p); the mask is a function of (seed, step, node, sample, element). Else x.
/// Shape   x [B, ...] -> the same; axis 0 is the sample.
class Dropout : public Module {
 public:
  explicit Dropout(double p);
  Var forward(const Call& call) const override;

 private:
  double p_;
};

/// y = x + dropout(inner(norm(x))): the pre-norm residual branch of a transformer.
class Residual : public Composite {
 public:
  template <class Norm, class Inner>
  Residual(Norm norm, std::string name, Inner inner, double dropout)
      : norm_(add("norm", std::move(norm))), inner_(add(std::move(name), std::move(inner))), dropout_(checked(dropout)) {}
  Var forward(const Call& call) const override;

 private:
  static double checked(double p);
  int norm_, inner_;
  double dropout_;
};

}  // namespace sluice::layers
