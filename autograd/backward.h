#pragma once
#include <map>
#include <vector>

#include "autograd/var.h"
#include "core/ops/accumulate.h"

namespace sluice {

/// The gradients of one recorded graph, in one pass or in two.
///
/// `run()` computes everything (B). `run_inputs()` computes the gradients of all that depends on data, input leaves among them (I), and
/// keeps only what the gradients of parameters read, or the finished ones where an op makes them at once (see record()); `run_weights()`
/// makes and sums these (W). The gradients are the same bits either way.
/// What the nodes saved is freed on the way. Of several backwards over one part of a graph (two losses over one trunk), all but the last
/// need Saved::kept: they work on copies of the nodes and leave the graph as it was. Over freed nodes a backward is refused.
/// Every gradient has its node's gradient_dtype(): f32 for a parameter in bf16.
/// Contributions to one value are added in the order of creation of their consumers, last consumer first.
/// Threads  one.
class Backward {
 public:
  enum class Saved { freed, kept };

  /// `dy` is the gradient of `y`, of its shape and on its device. Errors  UsageError when they differ or `y` depends on no leaf.
  Backward(const Var& y, Tensor dy, Saved saved = Saved::freed);
  /// The same for a recorded value of which only the node is left.
  Backward(const NodePtr& root, Tensor dy, Saved saved = Saved::freed);

  /// A sum that the gradient of a leaf is added to, in the pass over memory that makes it where the leaf's use can: take() then gives
  /// both. With one use alone are these the bits of adding the sum to the gradient afterwards.
  /// Shape   the leaf's, on its device.
  /// Errors  UsageError for a leaf with another number of uses, with an accumulator or a sum; for a sum that does not fit; after run()
  ///         or run_inputs().
  void begin_sum(const NodePtr& leaf, Tensor sum);

  /// Errors  UsageError when it ran, or comes to a node that another backward freed; when a backward function leaves out a gradient that it
  ///         was asked for, or returns one of another shape or device.
  void run();
  void run_inputs();
  /// Errors  as above, and before run_inputs().
  void run_weights();
  /// Whether run_weights() has anything to do.
  bool has_deferred() const { return !deferred_.empty(); }

  /// The gradient of a leaf (its accumulator, where it has one), and frees it; undefined when the leaf does not lie upstream or
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
    bool has_begun = false;  ///< the node is this backward's own
  };
  using Visits = std::map<uint64_t, Visit, std::greater<>>;  // by creation order, last first

  void require_new() const;
  void begin(Visit& visit) const;
  void propagate(Pass pass);
  void visit(Visit visit, Pass pass);
  Gradients gradients_of(const Node& node, const Tensor& dy, const Needs& needs, Pass pass);
  Tensor* sum_of(const Node& value);
  Visit& pending(const NodePtr& node);
  void defer(Visit visit);
  void add(const NodePtr& node, Tensor gradient);

  const char* root_;  ///< its op
  Saved saved_;
  Visits pending_;          ///< still to come in this pass
  Visits::node_type done_;  ///< the entry of the last visit, for the next one that comes: most visits bring one
  Visits deferred_;         ///< wait for run_weights
  std::map<const Node*, Tensor> leaves_;
  std::vector<Accumulation> small_;  ///< gradients for accumulators, of few elements: added together at the end of a pass
  bool inputs_done_ = false;
};

/// All gradients of `leaves` in one pass; undefined for one that y does not depend on, and for a constant, such as a frozen parameter.
/// Convenience for code without a pipeline.
/// Errors  UsageError for the result of an op; as Backward.
std::vector<Tensor> gradients(const Var& y, const Tensor& dy, const std::vector<Var>& leaves,
                              Backward::Saved saved = Backward::Saved::freed);
/// Those of a loss, a single number, whose own gradient is 1.
/// Errors  UsageError for a loss of another shape; as above.
std::vector<Tensor> gradients(const Var& loss, const std::vector<Var>& leaves, Backward::Saved saved = Backward::Saved::freed);

}  // namespace sluice
