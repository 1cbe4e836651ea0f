#pragma once
#include "core/ops/elementwise_names.h"
#include "layers/module.h"

namespace sluice::layers {

/// An elementwise function as a layer: an activation, or any other of SLUICE_UNARY_OPS.
class Activation : public Module {
 public:
  /// Those that LinearActivation fuses.
  enum class Kind { gelu, gelu_tanh, relu, silu };
  static Unary rule_of(Kind kind);
  explicit Activation(Kind kind) : rule_(rule_of(kind)) {}
  explicit Activation(Unary rule) : rule_(rule) {}
  Var forward(const Call& call) const override;

 private:
  Unary rule_;
};
inline Activation ReLU() { return Activation(Unary::Relu); }
inline Activation GELU() { return Activation(Unary::Gelu); }
inline Activation GELUTanh() { return Activation(Unary::GeluTanh); }
inline Activation SiLU() { return Activation(Unary::Silu); }
inline Activation Sigmoid() { return Activation(Unary::Sigmoid); }
inline Activation Tanh() { return Activation(Unary::Tanh); }
inline Activation Softplus() { return Activation(Unary::Softplus); }

/// exp(x) / sum(exp(x)) over the last axis. CrossEntropy and KLDivergence take what comes before it.
class Softmax : public Module {
 public:
  Var forward(const Call& call) const override;
};

/// x - log(sum(exp(x))) over the last axis.
class LogSoftmax : public Module {
 public:
  Var forward(const Call& call) const override;
};

/// y = min(max(x, -limit), limit), without a gradient where the result is an end. On logits it keeps very deep models from diverging: GPipe
/// (arXiv 1811.06965, 5) trains 128 Transformer layers with it.
class Clamp : public Module {
 public:
  explicit Clamp(double limit);
  Var forward(const Call& call) const override;

 private:
  double limit_;
};

}  // namespace sluice::layers
