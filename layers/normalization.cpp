#include "layers/normalization.h"

#include "autograd/ops/normalization.h"

namespace sluice::layers {

LayerNorm::LayerNorm(int64_t width, double epsilon) : width_(width), epsilon_(epsilon) {
  require(width > 0 && epsilon > 0, "LayerNorm: needs a width and an epsilon > 0, got ", width, " and ", epsilon);
}

std::vector<ParameterSpec> LayerNorm::parameters() const {
  return {{"weight", {width_}, Initializer::ones(), false}, {"bias", {width_}, Initializer::zeros(), false}};
}

Var LayerNorm::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  return layer_norm(in_working_dtype(x, weight), weight, call.parameters[1], epsilon_);
}

RMSNorm::RMSNorm(int64_t width, double epsilon) : width_(width), epsilon_(epsilon) {
  require(width > 0 && epsilon > 0, "RMSNorm: needs a width and an epsilon > 0, got ", width, " and ", epsilon);
}

std::vector<ParameterSpec> RMSNorm::parameters() const { return {{"weight", {width_}, Initializer::ones(), false}}; }

Var RMSNorm::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  return rms_norm(in_working_dtype(x, weight), weight, epsilon_);
}

}  // namespace sluice::layers
