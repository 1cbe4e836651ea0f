// What partitioning needs of a graph: its shape, and which ways gradients take through it.
#include "parallel/plan/model_topology.h"

#include <algorithm>
#include <set>

#include "layers/tables.h"
#include "layers/value_type.h"

namespace sluice::parallel {

namespace {

/// By position: whether the gradient of a node's value reaches its input, or its parameter.
struct Reach {
  std::vector<bool> inputs, parameters;
};

std::set<const Node*> leaves_of(const NodePtr& root) {
  std::set<const Node*> seen, leaves;
  std::vector<const Node*> open{root.get()};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!node || !seen.insert(node).second) continue;
    if (!node->backward) leaves.insert(node);
    for (const NodePtr& input : node->inputs) open.push_back(input.get());
  }
  return leaves;
}

/// Runs the modules one after another on a device that only counts, for the samples that Graph::add tries them with: of one alone a module
/// may leave out what it does with several. It looks at what they recorded, which shows every gradient that a module leaves out, without a
/// word of its author. A module that cannot run so (its input has no known shape, it reads elements) is taken to make all of them; a stage
/// adds nothing for those that do not come.
class Recording {
 public:
  explicit Recording(const layers::Graph& graph) : graph_(graph) {
    for (const auto& [name, shape, dtype] : graph.inputs())
      values_.push_back(shape ? empty(layers::ValueType::of_samples(*shape, dtype).shape, dtype, device_) : Tensor());
  }

  /// In the order of nodes.
  Reach next(const layers::Graph::Node& node) {
    const bool has_inputs = std::ranges::all_of(node.inputs, [&](int value) { return values_[value].defined(); });
    if (has_inputs) try {
        return run(node);
      } catch (const std::exception&) {  // the step will say what is wrong, if anything is
      }
    values_.emplace_back();
    Reach all{std::vector<bool>(node.inputs.size(), true), {}};
    for (const int parameter : node.parameters) all.parameters.push_back(!graph_.parameters()[parameter].frozen);
    return all;
  }

 private:
  Reach run(const layers::Graph::Node& node) {
    layers::Call call;
    for (int value : node.inputs)
      call.inputs.push_back(is_floating(values_[value].dtype()) ? Var::input(values_[value]) : Var(values_[value]));
    for (int parameter : node.parameters)
      call.parameters.push_back(graph_.parameters()[parameter].leaf(empty(graph_.parameters()[parameter].spec.shape, DType::f32, device_)));
    std::vector<std::vector<BatchMoments>> observed(node.statistics.size());
    call.tables = tables_.of(*node.module);
    call.observed = observed;
    const Var y = node.module->forward(call);
    const auto leaves = leaves_of(y.node());
    const auto reached = [&](const std::vector<Var>& all) {
      std::vector<bool> result;
      for (const Var& leaf : all) result.push_back(leaf.node() && leaves.contains(leaf.node().get()));
      return result;
    };
    values_.push_back(y.value());
    return {reached(call.inputs), reached(call.parameters)};
  }

  const layers::Graph& graph_;
  const DevicePtr device_ = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{});
  layers::Tables tables_{device_, DType::f32};
  std::vector<Tensor> values_;
};

bool any_of(const std::vector<bool>& marks) { return std::ranges::find(marks, true) != marks.end(); }

/// By value: a gradient of it reaches a parameter.
std::vector<bool> depends_on_parameters(const layers::Graph& graph, const std::vector<Reach>& reach) {
  std::vector<bool> result(graph.inputs().size(), false);
  for (size_t node = 0; node < reach.size(); ++node) {
    bool depends = any_of(reach[node].parameters);
    const auto& inputs = graph.nodes()[node].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) depends = depends || (reach[node].inputs[i] && result[inputs[i]]);
    result.push_back(depends);
  }
  return result;
}

/// By value: the loss's gradient reaches it.
std::vector<bool> leads_to_loss(const layers::Graph& graph, const std::vector<Reach>& reach) {
  std::vector<bool> result(graph.inputs().size() + graph.nodes().size(), false);
  if (!graph.has_loss()) return result;
  result[graph.value_of(graph.loss_node())] = true;
  for (int node = static_cast<int>(reach.size()) - 1; node >= 0; --node) {
    const auto& inputs = graph.nodes()[node].inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (result[graph.value_of(node)] && reach[node].inputs[i]) result[inputs[i]] = true;
  }
  return result;
}

/// The inputs that no position of the node passes a gradient to.
std::vector<int> constants_of(const layers::Graph::Node& node, const Reach& reach) {
  std::set<int> constants(node.inputs.begin(), node.inputs.end());
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (reach.inputs[i]) constants.erase(node.inputs[i]);
  return {constants.begin(), constants.end()};
}

bool reaches_parameter(const layers::Graph::Node& node, const Reach& reach, int parameter) {
  for (size_t i = 0; i < node.parameters.size(); ++i)
    if (node.parameters[i] == parameter && reach.parameters[i]) return true;
  return false;
}

}  // namespace

Topology topology_of(const layers::Graph& graph) {
  graph.loss_node();  // throws
  require(graph.parameters().empty() || !std::ranges::all_of(graph.parameters(), &layers::Graph::Parameter::frozen), "graph: all of its ",
          graph.parameters().size(), " parameters are frozen, so there is nothing to train; freeze fewer of them");
  return inference_topology_of(graph);
}

Topology inference_topology_of(const layers::Graph& graph) {
  Topology topology;
  for (const auto& input : graph.inputs()) topology.inputs.push_back(input.name);
  std::vector<Reach> reach;
  Recording recording(graph);
  for (const auto& node : graph.nodes()) {
    reach.push_back(recording.next(node));
    topology.nodes.push_back({node.name, node.inputs, !node.statistics.empty(), constants_of(node, reach.back())});
  }
  const auto upstream = depends_on_parameters(graph, reach), downstream = leads_to_loss(graph, reach);
  for (size_t value = 0; value < upstream.size(); ++value) topology.differentiable.push_back(upstream[value] && downstream[value]);
  for (size_t index = 0; index < graph.parameters().size(); ++index) {
    const auto& parameter = graph.parameters()[index];
    Topology::Tied tied{parameter.name, parameter.nodes, {}};
    for (int node : parameter.nodes)
      if (!reaches_parameter(graph.nodes()[node], reach[node], static_cast<int>(index))) tied.constant_at.push_back(node);
    require(!graph.has_loss() || parameter.frozen ||
                std::ranges::any_of(tied.nodes, [&](int node) { return topology.contributes(node, tied); }),
            "graph: node '", graph.nodes()[parameter.nodes.front()].name, "' has parameters but the loss does not depend on it: '",
            parameter.name, "' gets no gradient; connect it or remove it");
    if (tied.nodes.size() > 1 && graph.has_loss() && !parameter.frozen) topology.tied.push_back(std::move(tied));
  }
  return topology;
}

}  // namespace sluice::parallel
