#include "layers/feed_forward.h"

#include "autograd/ops/linear.h"

namespace sluice::layers {

LinearActivation::LinearActivation(int64_t in, int64_t out, Activation::Kind kind, double standard_deviation)
    : Linear(in, out, true, standard_deviation), rule_(Activation::rule_of(kind)) {}

LinearActivation LinearActivation::with_lengths() const {
  LinearActivation result = *this;
  result.takes_lengths_ = true;
  return result;
}

Var LinearActivation::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  check_input(x);
  return linear_activation(rule_, in_working_dtype(x, weight), weight, call.parameters[1], lengths_of(call));
}

FeedForward::FeedForward(const Options& options) {
  in_ = add("in", LinearActivation(options.width, options.inner, options.activation, options.standard_deviation).with_lengths());
  out_ = add("out", Linear(options.inner, options.width, true, options.output_deviation).with_lengths());
}

Var FeedForward::forward(const Call& call) const {
  std::vector<Var> inputs = call.inputs;
  inputs[0] = run(call, in_, inputs);
  return run(call, out_, std::move(inputs));
}

}  // namespace sluice::layers
