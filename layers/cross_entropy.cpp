#include "layers/cross_entropy.h"

#include <cmath>

#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/elementwise.h"

namespace sluice::layers {

CrossEntropy::CrossEntropy(double label_smoothing, double auxiliary_weight)
    : label_smoothing_(label_smoothing), auxiliary_weight_(auxiliary_weight) {
  require(auxiliary_weight >= 0 && std::isfinite(auxiliary_weight), "CrossEntropy: needs a finite auxiliary weight >= 0, got ",
          auxiliary_weight);
  require(label_smoothing >= 0 && label_smoothing < 1, "CrossEntropy: needs a label smoothing in [0, 1), got ", label_smoothing);
}

Var CrossEntropy::forward(const Call& call) const {
  CrossEntropyOptions options;
  options.label_smoothing = call.training ? label_smoothing_ : 0;
  const Tensor& targets = call.inputs[1].value();
  require(call.inputs.size() < 3 || call.inputs[2].shape() == call.inputs[0].shape(),
          "CrossEntropy: needs logits of the auxiliary classifier for the same rows and classes as the others, ", call.inputs[0].shape(),
          ", got ", call.inputs.back().shape(), "; give its last layer as many outputs");
  const Var loss = cross_entropy(call.inputs[0], targets, options, call.loss_scale);
  if (call.inputs.size() < 3 || !call.training) return loss;
  return add(loss, cross_entropy(call.inputs[2], targets, options, call.loss_scale * auxiliary_weight_));
}

double CrossEntropy::loss_weight(const std::vector<Tensor>& inputs, int64_t) const {
  require(inputs.size() > 1 && inputs[1].defined(), "CrossEntropy: needs targets that are an input of the graph, got those of a node");
  return cross_entropy_weight(inputs[1], {});
}

}  // namespace sluice::layers
