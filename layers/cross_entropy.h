#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Softmax cross-entropy of logits against class numbers, as the micro-batch's share of the mini-batch's weighted mean.
/// Shape   inputs {logits [..., classes], targets [...] i32} -> scalar; a third input, the logits of an auxiliary classifier of the same
///         shape, adds its loss times `auxiliary_weight` in training.
/// Targets are an input of the graph; those of -100 are ignored and weigh nothing. Labels are smoothed in training alone: an evaluation
/// says how likely the targets are.
class CrossEntropy : public Module {
 public:
  explicit CrossEntropy(double label_smoothing = 0, double auxiliary_weight = 0);
  InputCount input_count() const override { return {2, 3}; }
  Var forward(const Call& call) const override;
  double loss_weight(const std::vector<Tensor>& inputs, int64_t samples) const override;

 private:
  double label_smoothing_, auxiliary_weight_;
};

}  // namespace sluice::layers
