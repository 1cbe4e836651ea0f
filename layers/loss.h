#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// A loss by its formula alone: a subclass returns what each sample or element loses, and this class makes it the micro-batch's share of
/// the weighted mean over the mini-batch,
///   loss = loss_scale * sum_i w[i] * mean(losses[i, ...]).
/// The sum over micro-batches is then sum_i w[i] l[i] / sum_i w[i] over the mini-batch, whatever the micro-batches are, and no subclass
/// can forget Call::loss_scale. Without weights each sample counts once.
/// Inputs  those of the formula, then, if wanted, weights: an input of the graph [B], or with further leading axes of the losses, such as
///         [B, T] of losses [B, T, C], of any dtype. A loss of weight 0 takes no part, as long as it is finite (0 times
///         NaN is NaN: targets that are not known are better 0 than NaN); a batch of padding may have a mask.
/// Shape   losses [B, ...], B the samples of input 0 -> scalar.
/// Dtypes  any floating one; sums in f32 for bf16, and the result is f32 (f64 for f64).
/// Errors  UsageError for losses without elements or of another number of samples, weights of another shape or made by a node, and weights of
///         a mini-batch that are below 0 or not finite, of which there is no mean. Graph::add refuses losses with a second axis of samples: one
///         for each pair is no mean over samples, and depends on the micro-batches.
///   class LogCosh : public Loss {
///     Var losses(const Call& call) const override { ... }
///   };
/// CrossEntropy is a module of its own: its kernel scales and sums in the pass that makes the losses, which are never stored.
class Loss : public Module {
 public:
  /// `inputs`  of the formula, without the weights.
  explicit Loss(int inputs = 2) : inputs_(inputs) {}
  InputCount input_count() const final { return {inputs_, inputs_ + 1}; }
  Var forward(const Call& call) const final;
  double loss_weight(const std::vector<Tensor>& inputs, int64_t samples) const final;

 protected:
  /// Inputs of floats come in the dtype of arithmetic of the first: f32 for bf16, as targets are in bf16 training. Others are as they were.
  virtual Var losses(const Call& call) const = 0;
  /// The weights, or an undefined tensor for none: the input after those of the formula. A subclass may make them of other inputs of the
  /// graph, such as targets != -100; those of nodes are undefined where the mini-batch is weighed.
  virtual Tensor weights(const std::vector<Tensor>& inputs) const;

 private:
  int inputs_;
};

}  // namespace sluice::layers
