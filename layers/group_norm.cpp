#include "layers/group_norm.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/normalization.h"
#include "autograd/ops/reshape.h"

namespace sluice::layers {

namespace {

/// Each row [..., N] with mean 0 and variance 1.
Var standardized(const Var& rows, double epsilon) {
  const Tensor& x = rows.value();
  const Shape width{x.dim(-1)};
  return layer_norm(rows, Var(full(width, 1, x.dtype(), x.device_ptr())), Var(zeros(width, x.dtype(), x.device_ptr())), epsilon);
}

}  // namespace

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double epsilon) : groups_(groups), channels_(channels), epsilon_(epsilon) {
  require(groups > 0 && channels > 0 && channels % groups == 0 && epsilon > 0,
          "GroupNorm: needs groups that divide the channels and an epsilon > 0, got ", groups, " groups of ", channels, " channels and ",
          epsilon);
}

std::vector<ParameterSpec> GroupNorm::parameters() const {
  return {{"weight", {channels_}, Initializer::ones(), false}, {"bias", {channels_}, Initializer::zeros(), false}};
}

Var GroupNorm::forward(const Call& call) const {
  const Var& weight = call.parameters[0];
  const Var x = in_working_dtype(call.inputs[0], weight);
  require(x.rank() >= 2 && x.dim(-1) == channels_ && x.elements() > 0 && is_floating(x.dtype()), "GroupNorm: needs floats [batch, ..., ",
          channels_, "] with elements, got ", name_of(x.dtype()), " ", x.shape());
  const int64_t samples = x.dim(0), run = channels_ / groups_, pixels = x.value().elements() / samples / channels_;
  const Var grouped = transpose(reshape(x, {samples, pixels, groups_, run}), 1, 2);
  const Var y = standardized(reshape(grouped, {samples, groups_, pixels * run}), epsilon_);
  const Var back = reshape(transpose(reshape(y, {samples, groups_, pixels, run}), 1, 2), x.shape());
  return sluice::add(mul(back, weight), call.parameters[1]);
}

}  // namespace sluice::layers
