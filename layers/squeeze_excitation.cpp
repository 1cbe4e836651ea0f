#include "layers/squeeze_excitation.h"

#include <algorithm>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/pooling.h"
#include "autograd/ops/reshape.h"
#include "layers/linear.h"

namespace sluice::layers {

SqueezeExcitation::SqueezeExcitation(int64_t channels, int64_t reduction) {
  require(channels > 0 && reduction > 0, "SqueezeExcitation: needs channels and a reduction > 0, got ", channels, " and ", reduction);
  const int64_t squeezed = std::max<int64_t>(1, channels / reduction);
  squeeze_ = add("squeeze", Linear(channels, squeezed));
  expand_ = add("expand", Linear(squeezed, channels));
}

Var SqueezeExcitation::forward(const Call& call) const {
  const Var x = in_working_dtype(call.inputs[0], call.parameters[0]);
  const Var squeezed = relu(run(call, squeeze_, {global_average_pool(x)}));
  const Var weights = sigmoid(run(call, expand_, {squeezed}));
  return mul(x, reshape(weights, {x.dim(0), 1, 1, x.dim(3)}));
}

}  // namespace sluice::layers
