#include "layers/feed_forward.h"

#include <algorithm>

#include "autograd/ops/elementwise.h"
#include "core/suggestion.h"
#include "layers/linear.h"

namespace sluice::layers {

namespace {

using Function = Var (*)(const Var&);

struct Named {
  const char* name;
  Function function;
};
constexpr Named kActivations[] = {
    {"gelu", [](const Var& x) { return gelu(x); }},
    {"gelu_tanh", [](const Var& x) { return gelu_tanh(x); }},
    {"relu", [](const Var& x) { return relu(x); }},
    {"silu", [](const Var& x) { return silu(x); }},
};

Function activation_named(const std::string& name) {
  for (const auto& known : kActivations)
    if (name == known.name) return known.function;
  throw UsageError(join("activation: unknown name '", name, "'", suggestion(name, activation_names())));
}

}  // namespace

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& known : kActivations) list.emplace_back(known.name);
    return list;
  }();
  return names;
}

FeedForward::FeedForward(const Options& options) : activation_(activation_named(options.activation)) {
  in_ = add("in", Linear(options.width, options.inner, true, options.standard_deviation));
  out_ = add("out", Linear(options.inner, options.width, true, options.output_deviation));
}

Var FeedForward::forward(const Call& call) const { return run(call, out_, {activation_(run(call, in_, call.inputs))}); }

Activation::Activation(const std::string& name) : function_(activation_named(name)) {}

Var Activation::forward(const Call& call) const { return function_(call.inputs[0]); }

}  // namespace sluice::layers
