#include "layers/activation.h"

#include <array>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/softmax.h"

namespace sluice::layers {

Unary Activation::rule_of(Kind kind) {
  constexpr std::array kRules{Unary::Gelu, Unary::GeluTanh, Unary::Relu, Unary::Silu};  // by Kind
  const auto index = static_cast<size_t>(kind);
  require(index < kRules.size(), "activation: needs one of Activation::Kind, got number ", static_cast<int>(kind));
  return kRules[index];
}

Var Activation::forward(const Call& call) const { return unary(rule_, call.inputs[0]); }

Var LeakyReLU::forward(const Call& call) const { return leaky_relu(call.inputs[0], slope_); }

Var ELU::forward(const Call& call) const { return elu(call.inputs[0], alpha_); }

PReLU::PReLU(int64_t channels, double start) : channels_(channels), start_(start) {
  require(channels > 0, "PReLU: needs channels > 0, got ", channels);
}

std::vector<ParameterSpec> PReLU::parameters() const { return {{"weight", {channels_}, Initializer::constant(start_), false}}; }

Var PReLU::forward(const Call& call) const {
  const Var& weight = call.parameters[0];
  const Var x = in_working_dtype(call.inputs[0], weight);
  require(channels_ == 1 || (x.shape().rank() > 0 && x.dim(-1) == channels_), "PReLU: needs x [..., ", channels_, "], got ", x.shape(),
          "; give it the channels of x, or 1 for one slope");
  return prelu(x, weight);
}

Var Softmax::forward(const Call& call) const { return softmax(call.inputs[0]); }

Var LogSoftmax::forward(const Call& call) const { return log_softmax(call.inputs[0]); }

Clamp::Clamp(double limit) : limit_(limit) { require(limit > 0, "Clamp: needs a limit > 0, got ", limit); }

Var Clamp::forward(const Call& call) const { return clamp(call.inputs[0], -limit_, limit_); }

}  // namespace sluice::layers
