#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Softmax cross-entropy of logits against class numbers, as the micro-batch's share of the mini-batch's weighted mean.
/// Shape   inputs {logits [..., classes], targets [...] i32} -> scalar.
/// Targets of -100 are ignored and weigh nothing.
class CrossEntropy : public Module {
 public:
  explicit CrossEntropy(double label_smoothing = 0);
  Var forward(const Call& call) const override;
  double loss_weight(const std::vector<Tensor>& inputs) const override;

 private:
  double label_smoothing_;
};

}  // namespace sluice::layers
