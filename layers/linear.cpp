#include "layers/linear.h"

#include <cmath>

#include "autograd/ops/linear.h"
#include "core/ops/matmul.h"

namespace sluice::layers {

Linear::Linear(int64_t in, int64_t out, bool bias, double standard_deviation)
    : in_(in),
      out_(out),
      bias_(bias),
      standard_deviation_(standard_deviation > 0 ? standard_deviation : 1 / std::sqrt(static_cast<double>(in))) {
  require(in > 0 && out > 0, "Linear: needs widths > 0, got ", in, " -> ", out);
  require(standard_deviation >= 0, "Linear: needs a standard deviation >= 0 (0 = 1 / sqrt(in)), got ", standard_deviation);
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

Linear Linear::with_lengths() const {
  Linear result = *this;
  result.takes_lengths_ = true;
  return result;
}

Tensor Linear::lengths_of(const Call& call) const {
  if (call.inputs.size() < 2) return {};
  const Var &x = call.inputs[0], &lengths = call.inputs[1];
  require(x.rank() == 3 && lengths.shape() == Shape{x.dim(0)} && lengths.dtype() == DType::i32, "Linear: needs x [B, T, ", in_,
          "] and lengths i32 [B], got ", x, " and ", lengths);
  const bool gains = !call.cache && skips_padding(x.value().device(), call.parameters[0].dtype(), x.dim(0) * x.dim(1), out_, in_);
  return gains ? lengths.value() : Tensor();
}

Var Linear::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  check_input(x);
  return linear(in_working_dtype(x, weight), weight, bias_ ? call.parameters[1] : Var(), lengths_of(call));
}

}  // namespace sluice::layers
