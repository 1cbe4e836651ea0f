#include "layers/feed_forward.h"

#include <array>

#include "autograd/ops/elementwise.h"
#include "layers/linear.h"

namespace sluice::layers {

namespace {

using Function = Var (*)(const Var&);

/// By Activation::Kind.
constexpr std::array<Function, 4> kFunctions{
    [](const Var& x) { return gelu(x); },
    [](const Var& x) { return gelu_tanh(x); },
    [](const Var& x) { return relu(x); },
    [](const Var& x) { return silu(x); },
};

Function function_of(Activation::Kind kind) {
  const auto index = static_cast<size_t>(kind);
  require(index < kFunctions.size(), "activation: needs one of Activation::Kind, got number ", static_cast<int>(kind));
  return kFunctions[index];
}

}  // namespace

FeedForward::FeedForward(const Options& options) : activation_(function_of(options.activation)) {
  in_ = add("in", Linear(options.width, options.inner, true, options.standard_deviation));
  out_ = add("out", Linear(options.inner, options.width, true, options.output_deviation));
}

Var FeedForward::forward(const Call& call) const { return run(call, out_, {activation_(run(call, in_, call.inputs))}); }

Activation::Activation(Kind kind) : function_(function_of(kind)) {}

Var Activation::forward(const Call& call) const { return function_(call.inputs[0]); }

Clamp::Clamp(double limit) : limit_(limit) { require(limit > 0, "Clamp: needs a limit > 0, got ", limit); }

Var Clamp::forward(const Call& call) const { return clamp(call.inputs[0], -limit_, limit_); }

}  // namespace sluice::layers
