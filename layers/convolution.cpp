#include "layers/convolution.h"

#include <cmath>

#include "autograd/ops/convolution.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/factorized_reduction.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "layers/batch_norm.h"

namespace sluice::layers {

namespace {

void check_channels(const char* module, int64_t in, int64_t out, int64_t groups) {
  require(in > 0 && out > 0, module, ": needs channels > 0, got ", in, " -> ", out);
  require(groups > 0 && in % groups == 0 && out % groups == 0, module, ": needs groups that divide ", in, " and ", out, " channels, got ",
          groups);
}

/// A weight [from, KH, KW, to / groups] with He's rule over `from`, and a bias of so many channels, 0 for none.
std::vector<ParameterSpec> convolution_parameters(int64_t from, int64_t to, const Window& window, int64_t groups, int64_t bias) {
  const double fan = static_cast<double>(window.size_h * window.size_w * from / groups);
  std::vector<ParameterSpec> specs{{"weight", {from, window.size_h, window.size_w, to / groups}, Initializer::normal(std::sqrt(2 / fan))}};
  if (bias > 0) specs.push_back({"bias", {bias}, Initializer::zeros(), false});
  return specs;
}

/// Of a layer that takes images with so many channels.
void check_images(const char* layer, const Var& x, int64_t channels) {
  const bool is_turned = x.rank() == 4 && x.dim(1) == channels;
  require(x.rank() == 4 && x.dim(3) == channels && is_floating(x.dtype()), layer, ": needs floats [batch, height, width, ", channels,
          "], got ", name_of(x.dtype()), " ", x.shape(),
          is_turned ? "; channels are the last axis: permute({0, 2, 3, 1})" : "; its first argument is the number of channels");
}

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, const Window& window, int64_t groups, bool bias)
    : in_(in), out_(out), groups_(groups), bias_(bias), window_(window) {
  check_channels("Conv2d", in, out, groups);
}

std::vector<ParameterSpec> Conv2d::parameters() const { return convolution_parameters(out_, in_, window_, groups_, bias_ ? out_ : 0); }

Var Conv2d::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  check_images("Conv2d", x, in_);
  const Var y = conv2d(in_working_dtype(x, weight), weight, window_, groups_);
  return bias_ ? sluice::add(y, call.parameters[1]) : y;
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, const Window& window, int64_t groups, bool bias)
    : in_(in), out_(out), groups_(groups), bias_(bias), window_(window) {
  check_channels("ConvTranspose2d", in, out, groups);
}

std::vector<ParameterSpec> ConvTranspose2d::parameters() const {
  return convolution_parameters(in_, out_, window_, groups_, bias_ ? out_ : 0);
}

Var ConvTranspose2d::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  check_images("ConvTranspose2d", x, in_);
  const Var y = conv_transpose2d(in_working_dtype(x, weight), weight, window_, groups_);
  return bias_ ? sluice::add(y, call.parameters[1]) : y;
}

Conv1d::Conv1d(const Options& options) {
  const auto& [in, out, size, stride, padding, pad, groups, bias, dilation] = options;
  const Window window{.size_w = size, .stride_w = stride, .padding = padding, .pad_w = pad, .dilation_w = dilation};
  convolution_ = add("", Conv2d(in, out, window, groups, bias));
}

Var Conv1d::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  require(x.shape().rank() == 3, "Conv1d: needs sequences [batch, tokens, channels], got ", x.shape());
  const Var y = run(call, convolution_, {unsqueeze(x, 1)});
  return squeeze(y, 1);
}

FactorizedReduction::FactorizedReduction(int64_t in, int64_t out, bool relu) {
  require(out > 0 && out % 2 == 0, "FactorizedReduction: needs an even number of channels, got ", out);
  // These name the weights of a product that takes both.
  add("even", Conv2d(in, out / 2, {}));
  add("odd", Conv2d(in, out / 2, {}));
  norm_ = add("norm", BatchNorm(out, {.relu = relu}));
}

Var FactorizedReduction::forward(const Call& call) const {
  const Var &even = call.parameters[0], &odd = call.parameters[1];
  check_images("FactorizedReduction", call.inputs[0], even.dim(3));
  return run(call, norm_, {factorized_reduction(in_working_dtype(call.inputs[0], even), even, odd)});
}

}  // namespace sluice::layers
