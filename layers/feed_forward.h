#pragma once
#include <string>

#include "layers/module.h"

namespace sluice::layers {

/// The activation functions that layers know by name.
const std::vector<std::string>& activation_names();

/// y = out(activation(in(x))).
/// Shape   x [..., width] -> the same; in.weight [inner, width], out.weight [width, inner], with biases.
class FeedForward : public Composite {
 public:
  struct Options {
    int64_t width, inner;
    std::string activation = "gelu_tanh";  ///< gelu, gelu_tanh, relu, silu
    double standard_deviation = 0;         ///< of in.weight; 0 = 1 / sqrt(width)
    double output_deviation = 0;           ///< of out.weight; 0 = 1 / sqrt(inner)
  };
  explicit FeedForward(const Options& options);
  Var forward(const Call& call) const override;

 private:
  Var (*activation_)(const Var&);
  int in_, out_;
};

/// An activation function as a layer. Errors  UsageError for an unknown name (the nearest is named).
class Activation : public Module {
 public:
  explicit Activation(const std::string& name);
  Var forward(const Call& call) const override;

 private:
  Var (*function_)(const Var&);
};
inline Activation ReLU() { return Activation("relu"); }
inline Activation GELU() { return Activation("gelu"); }
inline Activation SiLU() { return Activation("silu"); }

}  // namespace sluice::layers
