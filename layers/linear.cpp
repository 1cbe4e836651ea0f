#include "layers/linear.h"

#include <cmath>

#include "autograd/ops/linear.h"

namespace sluice::layers {

Linear::Linear(int64_t in, int64_t out, bool bias, double standard_deviation)
    : in_(in),
      out_(out),
      bias_(bias),
      standard_deviation_(standard_deviation > 0 ? standard_deviation : 1 / std::sqrt(static_cast<double>(in))) {
  require(in > 0 && out > 0, "Linear: needs widths > 0, got ", in, " -> ", out);
}

std::vector<ParameterSpec> Linear::parameters() const {
  std::vector<ParameterSpec> specs{{"weight", {out_, in_}, Initializer::normal(standard_deviation_)}};
  if (bias_) specs.push_back({"bias", {out_}, Initializer::zeros(), false});
  return specs;
}

Var Linear::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  return linear(in_working_dtype(x, weight), weight, bias_ ? call.parameters[1] : Var());
}

}  // namespace sluice::layers
