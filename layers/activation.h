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
inline Activation Mish() { return Activation(Unary::Mish); }
inline Activation Hardswish() { return Activation(Unary::Hardswish); }
inline Activation Hardsigmoid() { return Activation(Unary::Hardsigmoid); }

/// y = x where x > 0, else slope * x.
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double slope = 0.01) : slope_(slope) {}
  Var forward(const Call& call) const override;

 private:
  double slope_;
};

/// y = x where x > 0, else alpha * (exp(x) - 1).
class ELU : public Module {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Var forward(const Call& call) const override;

 private:
  double alpha_;
};

/// y = x where x > 0, else weight * x: a LeakyReLU whose slope is learned, one in all or one a channel.
/// Shape   x [..., C] -> the same; weight [1] or [C], without weight decay, which would pull slopes to 0.
/// Errors  UsageError unless channels > 0; for x of other channels than those of more than one.
/// Cost    one pass; the gradients of x and of the weight two each.
/// Source  He, Zhang, Ren, Sun 2015, arXiv:1502.01852.
class PReLU : public Module {
 public:
  explicit PReLU(int64_t channels = 1, double start = 0.25);
  std::vector<ParameterSpec> parameters() const override;
  Var forward(const Call& call) const override;

 private:
  int64_t channels_;
  double start_;
};

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
