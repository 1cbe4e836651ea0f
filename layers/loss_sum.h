#pragma once
#include <type_traits>

#include "layers/module.h"

namespace sluice::layers {

/// Several losses as one node: sum_k factor[k] * mean[k], where mean[k] is the k-th loss's own weighted mean over the mini-batch, exactly,
/// whatever the micro-batches are and whatever the losses count: samples, tokens, or the sum of weights. A loss of which nothing counts in a
/// mini-batch adds nothing there.
///   graph.add("loss", LossSum().with("label", CrossEntropy(), 1, {0, 1}).with("box", Huber(), 0.5, {2, 3}), {logits, label, box, truth})
/// A mini-batch itself weighs its number of samples, in means over several of them.
/// A call that is made by hand, without Call::loss_weights, sums factor[k] times what the k-th makes of the call's loss_scale.
/// Errors  UsageError for a factor that is not finite, a loss that reads no input, and one that forgets Call::loss_scale.
class LossSum : public Composite {
 public:
  /// `reads`  numbers of the node's inputs that the loss takes, in its order; several losses may read one.
  template <class M>
  LossSum with(std::string name, M loss, double factor, std::vector<int> reads) && {
    static_assert(!std::is_base_of_v<LossSum, M>, "add the parts of the inner sum to the outer one");
    add_part({add(std::move(name), std::move(loss)), factor, std::move(reads)});
    return std::move(*this);
  }
  InputCount input_count() const override { return {inputs_, inputs_}; }
  Var forward(const Call& call) const override;
  double loss_weight(const std::vector<Tensor>& inputs, int64_t samples) const override;
  std::vector<double> loss_weights(const std::vector<Tensor>& inputs, int64_t samples) const override;

 private:
  struct Part {
    int child;
    double factor;
    std::vector<int> reads;
  };
  void add_part(Part part);
  Var term(const Call& call, size_t number) const;
  std::vector<Part> parts_;
  int inputs_ = 0;
};

}  // namespace sluice::layers
