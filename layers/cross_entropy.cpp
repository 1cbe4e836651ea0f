#include "layers/cross_entropy.h"

#include "autograd/ops/cross_entropy.h"

namespace sluice::layers {

CrossEntropy::CrossEntropy(double label_smoothing) : label_smoothing_(label_smoothing) {
  require(label_smoothing >= 0 && label_smoothing < 1, "CrossEntropy: needs a label smoothing in [0, 1), got ", label_smoothing);
}

Var CrossEntropy::forward(const Call& call) const {
  CrossEntropyOptions options;
  options.label_smoothing = call.training ? label_smoothing_ : 0;
  return cross_entropy(call.inputs[0], call.inputs[1].value(), options, call.loss_scale);
}

double CrossEntropy::loss_weight(const std::vector<Tensor>& inputs) const { return cross_entropy_weight(inputs[1], {}); }

}  // namespace sluice::layers
