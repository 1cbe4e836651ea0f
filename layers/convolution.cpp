#include "layers/convolution.h"

#include <cmath>

#include "autograd/ops/concat.h"
#include "autograd/ops/convolution.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "layers/batch_norm.h"

namespace sluice::layers {

Conv2d::Conv2d(int64_t in, int64_t out, const Window& window, int64_t groups, bool bias)
    : in_(in), out_(out), groups_(groups), bias_(bias), window_(window) {
  require(in > 0 && out > 0, "Conv2d: needs channels > 0, got ", in, " -> ", out);
  require(groups > 0 && in % groups == 0 && out % groups == 0, "Conv2d: needs groups that divide ", in, " and ", out, " channels, got ",
          groups);
}

std::vector<ParameterSpec> Conv2d::parameters() const {
  const double fan_out = static_cast<double>(window_.size_h * window_.size_w * out_ / groups_);
  std::vector<ParameterSpec> specs{
      {"weight", {out_, window_.size_h, window_.size_w, in_ / groups_}, Initializer::normal(std::sqrt(2 / fan_out))}};
  if (bias_) specs.push_back({"bias", {out_}, Initializer::zeros(), false});
  return specs;
}

Var Conv2d::forward(const Call& call) const {
  const Var &x = call.inputs[0], &weight = call.parameters[0];
  const Var y = conv2d(in_working_dtype(x, weight), weight, window_, groups_);
  return bias_ ? sluice::add(y, call.parameters[1]) : y;
}

Conv1d::Conv1d(const Options& options) {
  const auto& [in, out, size, stride, padding, pad, groups, bias] = options;
  const Window window{.size_w = size, .stride_w = stride, .padding = padding, .pad_w = pad};
  convolution_ = add("", Conv2d(in, out, window, groups, bias));
}

Var Conv1d::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  require(x.shape().rank() == 3, "Conv1d: needs sequences [batch, tokens, channels], got ", x.shape());
  const Var y = run(call, convolution_, {unsqueeze(x, 1)});
  return squeeze(y, 1);
}

namespace {

constexpr Window kEverySecond{.stride_h = 2, .stride_w = 2};

/// x [B, H, W, C] with zeros after its last row and column, up to height and width.
Var with_zeros_after(Var x, int64_t height, int64_t width) {
  for (const auto& [axis, extent] : {std::pair{1, height}, std::pair{2, width}})
    if (x.dim(axis) < extent) {
      const Shape missing = x.shape().with(axis, extent - x.dim(axis));
      x = concat({x, Var(zeros(missing, x.value().dtype(), x.value().device_ptr()))}, axis);
    }
  return x;
}

}  // namespace

FactorizedReduction::FactorizedReduction(int64_t in, int64_t out) {
  require(out > 0 && out % 2 == 0, "FactorizedReduction: needs an even number of channels, got ", out);
  even_ = add("even", Conv2d(in, out / 2, kEverySecond));
  odd_ = add("odd", Conv2d(in, out / 2, kEverySecond));
  norm_ = add("norm", BatchNorm(out));
}

/// The pixels at odd places are those of the image without its first row and column. There is no bias, so zeros past the edge give zeros.
Var FactorizedReduction::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  const Var even = run(call, even_, {x});
  const bool has_odd = x.dim(1) > 1 && x.dim(2) > 1;  // else all of them lie past the edge
  const Var shifted =
      has_odd ? slice(slice(x, 1, 1, x.dim(1)), 2, 1, x.dim(2)) : Var(zeros(x.shape(), x.value().dtype(), x.value().device_ptr()));
  const Var odd = with_zeros_after(run(call, odd_, {shifted}), even.dim(1), even.dim(2));
  return run(call, norm_, {concat({even, odd}, 3)});
}

}  // namespace sluice::layers
