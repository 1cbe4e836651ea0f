#pragma once
#include "core/ops/elementwise_rules.h"
#include "layers/linear.h"

namespace sluice::layers {

/// An activation function as a layer.
class Activation : public Module {
 public:
  enum class Kind { gelu, gelu_tanh, relu, silu };
  explicit Activation(Kind kind);
  Var forward(const Call& call) const override;

 private:
  Unary rule_;
};
inline Activation ReLU() { return Activation(Activation::Kind::relu); }
inline Activation GELU() { return Activation(Activation::Kind::gelu); }
inline Activation SiLU() { return Activation(Activation::Kind::silu); }

/// y = activation(x W^T + b): Linear and its activation in one, with the parameters of Linear; see autograd/ops/linear.h.
class LinearActivation : public Linear {
 public:
  LinearActivation(int64_t in, int64_t out, Activation::Kind kind, double standard_deviation = 0);
  Var forward(const Call& call) const override;

 private:
  Unary rule_;
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

/// y = out(activation(in(x))).
/// Shape   x [..., width] -> the same; in.weight [inner, width], out.weight [width, inner], with biases.
class FeedForward : public Composite {
 public:
  struct Options {
    int64_t width, inner;
    Activation::Kind activation = Activation::Kind::gelu_tanh;
    double standard_deviation = 0;  ///< of in.weight; 0 = 1 / sqrt(width)
    double output_deviation = 0;    ///< of out.weight; 0 = 1 / sqrt(inner)
  };
  explicit FeedForward(const Options& options);
  Var forward(const Call& call) const override;

 private:
  int in_, out_;
};

}  // namespace sluice::layers
