#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Errors  UsageError unless p, of dropping an element, is in [0, 1).
void check_probability(double p);

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
/// Inputs  {x} with h = x, or {h, x} when the branch began in an earlier node, and then what else the branch reads, such as lengths.
class Residual : public Composite {
 public:
  template <class Branch>
  Residual(Branch branch, double dropout) : branch_(add("", std::move(branch))), dropout_(dropout) {
    check_probability(dropout);
  }
  InputCount input_count() const override;
  Var forward(const Call& call) const override;

 private:
  int branch_;
  double dropout_;
};

/// y = layer(norm(x), further inputs ...): the first half of a pre-norm residual branch whose second half is a node of its own.
/// Inputs  those of the layer, with x in the place of its first.
class PreNorm : public Composite {
 public:
  template <class Norm, class Layer>
  PreNorm(Norm norm, std::string name, Layer layer) : norm_(add("norm", std::move(norm))), layer_(add(std::move(name), std::move(layer))) {}
  InputCount input_count() const override { return child(layer_).input_count(); }
  Var forward(const Call& call) const override;

 private:
  int norm_, layer_;
};

/// y = x + dropout(layer(norm(x), further inputs ...)): a pre-norm residual connection around a layer that may read more than the normed
/// value, such as lengths or an encoder's output.
/// Inputs  those of the layer, with x in the place of its first.
class PreNormResidual : public Composite {
 public:
  template <class Norm, class Layer>
  PreNormResidual(Norm norm, Layer layer, double dropout)
      : norm_(add("norm", std::move(norm))), layer_(add("", std::move(layer))), dropout_(dropout) {
    check_probability(dropout);
  }
  InputCount input_count() const override { return child(layer_).input_count(); }
  Var forward(const Call& call) const override;

 private:
  int norm_, layer_;
  double dropout_;
};

}  // namespace sluice::layers
