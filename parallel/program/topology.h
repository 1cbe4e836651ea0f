#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::parallel {

/// What partitioning, lowering and verification need to know of a model: a DAG of named nodes, no tensors.
/// Values are numbered: the graph's inputs first (0 .. inputs.size()-1), then one value a node in topological order.
/// Threads  immutable after it is built; shared freely.
struct Topology {
  struct Node {
    std::string name;
    std::vector<int> inputs;       ///< value ids, each produced before this node
    bool has_statistics = false;   ///< running statistics that its training changes
    std::vector<int> constants{};  ///< those of `inputs` of which its module makes no gradient, whatever its value's gradient is
  };
  /// One parameter used at several nodes. `nodes` is ascending; the first one is the owner, whose stage runs the optimizer on it.
  struct Tied {
    std::string parameter;
    std::vector<int> nodes;
    std::vector<int> constant_at{};  ///< those of `nodes` whose modules make no gradient of it
  };

  std::vector<std::string> inputs;  ///< names of the graph's inputs
  std::vector<Node> nodes;          ///< topological order: the unit of partitioning
  std::vector<bool>
      differentiable;  ///< by value: it has a gradient, so a parameter lies upstream and the loss downstream, on ways of gradients
  std::vector<Tied> tied;

  int value_count() const { return static_cast<int>(inputs.size() + nodes.size()); }
  int node_count() const { return static_cast<int>(nodes.size()); }
  int value_of(int node) const { return static_cast<int>(inputs.size()) + node; }
  /// The node that makes `value`, or -1 for an input of the graph.
  int node_of(int value) const { return value - static_cast<int>(inputs.size()) < 0 ? -1 : value - static_cast<int>(inputs.size()); }

  /// Whether the node's value has a gradient. Nothing else of training needs a tape of the node or a backward through it.
  bool has_gradient(int node) const { return differentiable[value_of(node)]; }
  /// Whether the node adds to the gradient of `value`, one of its inputs.
  bool contributes(int node, int value) const;
  /// Whether the use of a tied parameter at `node` makes a gradient.
  bool contributes(int node, const Tied& parameter) const;
};

}  // namespace sluice::parallel
