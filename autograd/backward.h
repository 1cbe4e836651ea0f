#pragma once
#include <map>
#include <vector>

#include "autograd/var.h"

namespace sluice {

/// The gradients of one recorded graph, in one pass or in two.
///
/// `run()` computes everything (B). `run_inputs()` computes the gradients of all that depends on data, input leaves among them (I), and
/// keeps only what the gradients of parameters read, or the finished ones where an op makes them at once (see record()); `run_weights()`
/// makes and sums these (W). The gradients are the same bits either way. Everything else is let go on the way, so a graph runs once.
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
  /// Whether run_weights() has anything to do.
  bool has_deferred() const { return !deferred_.empty(); }

  /// The gradient of a leaf (its accumulator, where it has one), and lets go of it; undefined when the leaf does not lie upstream or
  /// its pass did not run.
  Tensor take(const NodePtr& leaf);
  Tensor take(const Var& leaf) { return take(leaf.node()); }

 private:
  enum class Pass { all, inputs, weights };
  /// A node that the backward has come to, with the gradient of its value, or with those of its inputs that the first pass made.
  struct Visit {
    NodePtr node;
    Tensor dy;
    Gradients made;
  };
  using Visits = std::map<uint64_t, Visit, std::greater<>>;  // by creation order, last first

  void propagate(Pass pass);
  void visit(Visit visit, Pass pass);
  void defer(Visit visit);
  void add(const NodePtr& node, Tensor gradient);

  Visits pending_;   ///< still to come in this pass
  Visits deferred_;  ///< wait for run_weights
  std::map<const Node*, Tensor> leaves_;
  bool inputs_done_ = false;
};

/// All gradients of `leaves` in one pass. Convenience for code without a pipeline.
std::vector<Tensor> gradients(const Var& y, const Tensor& dy, const std::vector<Var>& leaves);

}  // namespace sluice
