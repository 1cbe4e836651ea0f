#pragma once
#include "layers/activation.h"
#include "layers/linear.h"

namespace sluice::layers {

/// y = activation(x W^T + b): Linear and its activation in one, with the inputs and parameters of Linear; see autograd/ops/linear.h.
class LinearActivation : public Linear {
 public:
  LinearActivation(int64_t in, int64_t out, Activation::Kind kind, double standard_deviation = 0);
  LinearActivation with_lengths() const;
  Var forward(const Call& call) const override;

 private:
  Unary rule_;
};

/// y = out(activation(in(x))).
/// Inputs  {x} or {x, lengths}, as those of Linear.
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
  InputCount input_count() const override { return {1, 2}; }
  Var forward(const Call& call) const override;

 private:
  int in_, out_;
};

}  // namespace sluice::layers
