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

Var Softmax::forward(const Call& call) const { return softmax(call.inputs[0]); }

Var LogSoftmax::forward(const Call& call) const { return log_softmax(call.inputs[0]); }

Clamp::Clamp(double limit) : limit_(limit) { require(limit > 0, "Clamp: needs a limit > 0, got ", limit); }

Var Clamp::forward(const Call& call) const { return clamp(call.inputs[0], -limit_, limit_); }

}  // namespace sluice::layers
