#pragma once
#include <map>
#include <vector>

#include "autograd/var.h"

namespace sluice {

/// The gradients of one recorded graph, in one pass or in two.
///
/// `run()` computes everything (B). `run_inputs()` computes only what leads to input leaves (I) and keeps what the weights need;
/// `run_weights()` finishes them (W). Saved tensors are let go as soon as no later pass reads them, so a graph runs backward once.
/// Every gradient has its node's gradient_dtype(): f32 for a parameter in bf16.
/// Contributions to one value are added in the order of creation of their consumers, last consumer first.
/// Threads  one.
class Backward {
 public:
  /// `dy` is the gradient of `y`, of its shape. Errors  UsageError when shapes differ or `y` depends on no leaf.
  Backward(const Var& y, Tensor dy);
  /// The same for a recorded value of which only the node is left; the caller answers for the shape of `dy`.
  Backward(const NodePtr& root, Tensor dy);

  void run();
  void run_inputs();
  /// Errors  UsageError before run_inputs().
  void run_weights();

  /// The gradient of a leaf (its accumulator, where it has one), and lets go of it; undefined when the leaf does not lie upstream or
  /// its pass did not run.
  Tensor take(const NodePtr& leaf);
  Tensor take(const Var& leaf) { return take(leaf.node()); }

 private:
  enum class Pass { all, inputs, weights };
  using Pending = std::map<uint64_t, std::pair<NodePtr, Tensor>, std::greater<>>;

  void propagate(Pass pass);
  void visit(const NodePtr& node, const Tensor& dy, Pass pass);
  void add(const NodePtr& node, Tensor gradient);

  Pending pending_;   ///< gradients that still have to pass through their node, by creation order
  Pending deferred_;  ///< nodes whose weight side waits for run_weights
  std::map<const Node*, Tensor> leaves_;
  bool inputs_done_ = false;
};

/// All gradients of `leaves` in one pass. Convenience for code without a pipeline.
std::vector<Tensor> gradients(const Var& y, const Tensor& dy, const std::vector<Var>& leaves);

}  // namespace sluice
