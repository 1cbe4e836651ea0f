#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "layers/module.h"
#include "layers/value_type.h"

namespace sluice::layers {

/// A value of a graph: an input, or the output of a node.
struct Value {
  int id = -1;
  uint64_t stamp = 0;  ///< of its making, unlike all others of the process
};

/// A model: a DAG of named modules. Nodes are added in topological order; they are the units of partitioning and their names are the
/// names in checkpoints. A graph holds no tensors but the values that parameters are told to start with. A copy knows the values of the original, as far as they were made before.
/// One that was moved from is as a new one.
/// Where the shapes of a node's inputs are known, the node is run once on a device that only counts, so that shapes that do not fit are
/// refused where they are written. Outputs, losses, and nodes whose inputs have another axis of as many places, are tried with twice as many
/// samples too, which tells the axis of samples from others.
/// Threads  immutable once it is built.
/// Errors   UsageError for a name that is empty, not printable ASCII or taken, tensors of one name, a value of another graph, another number
///          of inputs than the module takes, shapes that do not fit, a Loss with more axes of samples than the first, a loss that is no
///          single number, an output whose samples are not along its first axis alone, a tie of unequal shapes or within a node. The graph
///          is as it was before.
class Graph {
 public:
  // Out of line, so that whoever has a graph does not compile them.
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

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
    std::vector<int> nodes;                 ///< where it is used, ascending; the first one owns it
    bool frozen = false;                    ///< training leaves it as it is: it has no gradient and no states of an optimizer
    std::vector<std::string> tied_names{};  ///< those that ties have taken from other parameters: it is named by them too

    /// What a recorded forward reads of it.
    Var leaf(const Tensor& value) const { return frozen ? Var(value) : Var::parameter(value); }
  };

  struct Statistics {
    std::string name;  ///< "node", or "node.child": the states are "name.running_mean" and "name.running_variance"
    StatisticsSpec spec;

    std::string mean_name() const { return name + ".running_mean"; }
    std::string variance_name() const { return name + ".running_variance"; }
  };

  /// An input with unknown sample shape serves training, but not planning on meta devices. It takes samples of any dtype.
  Value input(std::string name);
  /// Samples keep their dtype, whatever the precision of the training; those of another one are refused (check_samples).
  Value input(std::string name, const Shape& sample_shape, DType dtype = DType::f32);

  /// `module`  of a type derived from Module, or a pointer to one, which several nodes and graphs may share: each node has parameters of
  /// its own.
  template <class M>
  Value add(std::string name, M module, const std::vector<Value>& inputs) {
    return add_node(std::move(name), pointer_to(std::move(module)), inputs);
  }
  template <class M>
  Value add(std::string name, M module, Value input) {
    return add_node(std::move(name), pointer_to(std::move(module)), input);
  }
  /// Makes `later` the same parameter as `earlier` (full names, "logits.weight"): one tensor, one gradient accumulator a use.
  void tie(const std::string& earlier, const std::string& later);
  /// Starts a parameter (full name, "logits.weight"; of a tied one either name) as said here instead of as its module says. What was said of
  /// the later one before the tie is forgotten.
  void initialize(const std::string& parameter, const Initializer& start);
  /// Training leaves the parameters whose full names the pattern says (matches_pattern; of a tied one any of its names) as they are: "trunk.*",
  /// or "*" for all. They have no gradient and no states of an optimizer, and where nothing before them is trained, no backward comes to their
  /// nodes. Plans count it so.
  /// Running statistics go on following what they see. A checkpoint has no states of them: who wants to train them later begins a new
  /// training with its weights (parallel::initialize). Call it once all that it means is there, ties as well.
  /// Errors  UsageError for a pattern that says no parameter.
  void freeze(const std::string& pattern);
  /// The node whose scalar value is trained. One node only.
  void loss(Value value);
  /// A value that predictions are read from: logits; of the first one generation runs what it depends on, and metrics are computed of it.
  /// Others go by the names of their nodes: an embedding beside the logits, boxes beside classes. Its first axis is that of samples, along
  /// which the parts of micro-batches are joined. A mean over the batch, such as the loss, is none: what evaluation says of it is the loss.
  void output(Value value);

  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistics>& statistics() const { return statistics_; }
  int value_of(int node) const { return static_cast<int>(inputs_.size()) + node; }
  int node_of(int value) const { return value < static_cast<int>(inputs_.size()) ? -1 : value - static_cast<int>(inputs_.size()); }
  bool has_loss() const { return !losses_.empty(); }
  int loss_node() const;                                             ///< Errors  UsageError when no loss was set.
  int output_node() const;                                           ///< the first one's. Errors  UsageError when no output was set.
  const std::vector<int>& output_nodes() const { return outputs_; }  ///< in the order of Graph::output
  int64_t parameter_count() const;                                   ///< elements, each tied parameter once
  int64_t parameter_count(int node) const;                           ///< of one node; tied ones count where they are owned
  /// The nodes that `value` depends on as a graph of their own, whose output it is, without a loss. Those of `given` are inputs of it, under
  /// the names of their nodes and in f32, and what they alone depend on is left out. Names of parameters and states stay.
  /// Errors  UsageError for a value that no node makes, and when one of `given` has no known shape.
  Graph upstream_of(int value, const std::set<int>& given = {}) const;
  /// The same for several values, which are its outputs in their order.
  Graph upstream_of(const std::vector<int>& outputs, const std::set<int>& given = {}) const;
  /// Errors  UsageError for samples of another dtype than the input was declared with, naming both.
  void check_samples(int input, const Tensor& samples) const;

 private:
  template <class M>
  static ModulePtr pointer_to(M module) {
    if constexpr (std::is_convertible_v<M, ModulePtr>)
      return module;
    else
      return std::make_shared<const M>(std::move(module));
  }
  Value add_node(std::string name, ModulePtr module, const std::vector<Value>& inputs);
  Value add_node(std::string name, ModulePtr module, Value input);
  void check_name(const std::string& name) const;
  void check_tensors(const Node& node) const;
  std::optional<ValueType> output_of(const Node& node, std::vector<Shape>& losses) const;
  const std::optional<ValueType>& doubled_type(int value);
  void check_chance(const Node& node);
  void check_losses(const Node& node, const std::vector<Shape>& losses);
  std::set<int> values_upstream(const std::vector<int>& values, const std::set<int>& given) const;
  void adopt(const Graph& whole, int node, std::map<int, int>& values, std::map<int, int>& parameters);
  Value stamped(const std::string& name, std::optional<ValueType> type);
  int id_of(const std::string& what, Value value) const;
  int node_with(const std::string& what, Value value) const;
  int parameter_index(const std::string& name) const;

  std::vector<Input> inputs_;
  std::vector<Node> nodes_;
  std::vector<Parameter> parameters_;
  std::vector<Statistics> statistics_;
  std::vector<uint64_t> stamps_;                 ///< by value
  std::vector<std::optional<ValueType>> types_;  ///< by value, where it is known
  /// The same of twice as many samples, for the first values: as far as somebody asked.
  std::vector<std::optional<ValueType>> doubled_;
  std::set<std::string> names_;                 ///< of inputs and nodes
  std::map<std::string, std::string> tensors_;  ///< the node that has each
  std::vector<int> losses_;                     ///< nodes: one at most, and none where the graph was moved from
  std::vector<int> outputs_;                    ///< nodes
};

}  // namespace sluice::layers
