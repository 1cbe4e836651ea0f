#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "layers/module.h"

namespace sluice::layers {

/// A value of a graph: an input, or the output of a node.
struct Value {
  int id = -1;
};

/// A model: a DAG of named modules. Nodes are added in topological order; they are the units of partitioning and their names are the
/// names in checkpoints. A graph holds no tensors.
/// Threads  immutable once it is built.
/// Errors   UsageError for a name that is empty or taken, a value of another graph, a tie of unequal shapes.
class Graph {
 public:
  struct Input {
    std::string name;
    std::optional<Shape> sample_shape;  ///< of one sample, without the batch axis; needed to plan
    DType dtype;
  };
  struct Node {
    std::string name;
    ModulePtr module;
    std::vector<int> inputs;      ///< value ids
    std::vector<int> parameters;  ///< indices into parameters()
    std::vector<int> statistics;  ///< indices into statistics()
  };
  struct Parameter {
    std::string name;  ///< "node.parameter"
    ParameterSpec spec;
    std::vector<int> nodes;  ///< where it is used, ascending; the first one owns it
  };

  struct Statistics {
    std::string name;  ///< "node", or "node.child": the states are "name.running_mean" and "name.running_variance"
    StatisticsSpec spec;

    std::string mean_name() const { return name + ".running_mean"; }
    std::string variance_name() const { return name + ".running_variance"; }
  };

  /// An input with unknown sample shape serves training, but not planning on meta devices.
  Value input(std::string name);
  Value input(std::string name, const Shape& sample_shape, DType dtype = DType::f32);

  template <class M>
  Value add(std::string name, M module, std::initializer_list<Value> inputs) {
    return add_node(std::move(name), std::make_shared<const M>(std::move(module)), inputs);
  }
  template <class M>
  Value add(std::string name, M module, Value input) {
    return add(std::move(name), std::move(module), {input});
  }
  /// Makes `later` the same parameter as `earlier` (full names, "logits.weight"): one tensor, one gradient accumulator a use.
  void tie(const std::string& earlier, const std::string& later);
  /// The node whose scalar value is trained.
  void loss(Value value);
  /// The value that predictions are read from (logits); generation runs what it depends on.
  void output(Value value);

  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistics>& statistics() const { return statistics_; }
  int value_of(int node) const { return static_cast<int>(inputs_.size()) + node; }
  int node_of(int value) const { return value < static_cast<int>(inputs_.size()) ? -1 : value - static_cast<int>(inputs_.size()); }
  int loss_node() const;                    ///< Errors  UsageError when no loss was set.
  int output_node() const;                  ///< Errors  UsageError when no output was set.
  int64_t parameter_count() const;          ///< elements, each tied parameter once
  int64_t parameter_count(int node) const;  ///< of one node; tied ones count where they are owned

 private:
  Value add_node(std::string name, ModulePtr module, std::initializer_list<Value> inputs);
  void take_name(const std::string& name);
  int parameter_index(const std::string& name) const;

  std::unordered_set<std::string> names_;  ///< of inputs and nodes
  std::vector<Input> inputs_;
  std::vector<Node> nodes_;
  std::vector<Parameter> parameters_;
  std::vector<Statistics> statistics_;
  int loss_ = -1, output_ = -1;
};

}  // namespace sluice::layers
