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

void Linear::check_input(const Var& x) const {
  require(x.rank() > 0 && x.dim(-1) == in_ && is_floating(x.dtype()), "Linear: needs floats [..., ", in_, "], got ", name_of(x.dtype()),
          " ", x.shape(),
          x.rank() > 2 && x.elements() == x.dim(0) * in_ ? "; put a Flatten before it" : "; its first argument is the width that comes");
}

Var Linear::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  check_input(x);
  return linear(in_working_dtype(x, weight), weight, bias_ ? call.parameters[1] : Var());
}

}  // namespace sluice::layers
