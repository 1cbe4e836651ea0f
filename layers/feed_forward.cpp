#include "layers/feed_forward.h"

#include <array>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"

namespace sluice::layers {

namespace {

/// By Activation::Kind.
constexpr std::array kRules{Unary::Gelu, Unary::GeluTanh, Unary::Relu, Unary::Silu};

Unary rule_of(Activation::Kind kind) {
  const auto index = static_cast<size_t>(kind);
  require(index < kRules.size(), "activation: needs one of Activation::Kind, got number ", static_cast<int>(kind));
  return kRules[index];
}

}  // namespace

Activation::Activation(Kind kind) : rule_(rule_of(kind)) {}

Var Activation::forward(const Call& call) const { return unary(rule_, call.inputs[0]); }

LinearActivation::LinearActivation(int64_t in, int64_t out, Activation::Kind kind, double standard_deviation)
    : Linear(in, out, true, standard_deviation), rule_(rule_of(kind)) {}

Var LinearActivation::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  return linear_activation(rule_, in_working_dtype(x, weight), weight, call.parameters[1]);
}

FeedForward::FeedForward(const Options& options) {
  in_ = add("in", LinearActivation(options.width, options.inner, options.activation, options.standard_deviation));
  out_ = add("out", Linear(options.inner, options.width, true, options.output_deviation));
}

Var FeedForward::forward(const Call& call) const { return run(call, out_, {run(call, in_, call.inputs)}); }

Clamp::Clamp(double limit) : limit_(limit) { require(limit > 0, "Clamp: needs a limit > 0, got ", limit); }

Var Clamp::forward(const Call& call) const { return clamp(call.inputs[0], -limit_, limit_); }

}  // namespace sluice::layers
