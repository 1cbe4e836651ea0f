#include "layers/graph.h"

#include <algorithm>

#include "core/suggestion.h"

namespace sluice::layers {

void Graph::take_name(const std::string& name) {
  require(!name.empty(), "graph: needs a name for every input and node");
  require(names_.insert(name).second, "graph: the name '", name, "' is taken; names are those in checkpoints and must differ");
}

Value Graph::input(std::string name) {
  require(nodes_.empty(), "graph: needs all inputs before the first node, got input '", name, "' after it");
  take_name(name);
  inputs_.push_back({std::move(name), std::nullopt, DType::f32});
  return {static_cast<int>(inputs_.size()) - 1};
}

Value Graph::input(std::string name, const Shape& sample_shape, DType dtype) {
  const Value value = input(std::move(name));
  inputs_.back().sample_shape = sample_shape;
  inputs_.back().dtype = dtype;
  return value;
}

Value Graph::add_node(std::string name, ModulePtr module, std::initializer_list<Value> inputs) {
  Node node{std::move(name), std::move(module), {}, {}, {}};
  const int number = static_cast<int>(nodes_.size());
  for (Value value : inputs) {
    require(value.id >= 0 && value.id < value_of(number), "graph: node '", node.name, "' needs values made before it in this graph");
    node.inputs.push_back(value.id);
  }
  take_name(node.name);
  for (auto& spec : node.module->parameters()) {
    node.parameters.push_back(static_cast<int>(parameters_.size()));
    parameters_.push_back({node.name + "." + spec.name, spec, {number}});
  }
  for (auto& spec : node.module->statistics()) {
    node.statistics.push_back(static_cast<int>(statistics_.size()));
    statistics_.push_back({joined_name(node.name, spec.name), spec});
  }
  nodes_.push_back(std::move(node));
  return {value_of(number)};
}

int Graph::parameter_index(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return static_cast<int>(i);
    names.push_back(parameters_[i].name);
  }
  throw UsageError(join("graph: there is no parameter '", name, "'", suggestion(name, names)));
}

void Graph::tie(const std::string& earlier, const std::string& later) {
  const int kept = parameter_index(earlier), dropped = parameter_index(later);
  require(kept < dropped, "tie: needs '", earlier, "' to come before '", later, "' in the graph");
  require(parameters_[kept].spec.shape == parameters_[dropped].spec.shape, "tie: needs equal shapes, got ", parameters_[kept].spec.shape,
          " for '", earlier, "' and ", parameters_[dropped].spec.shape, " for '", later, "'");
  auto& uses = parameters_[kept].nodes;
  uses.insert(uses.end(), parameters_[dropped].nodes.begin(), parameters_[dropped].nodes.end());
  std::ranges::sort(uses);
  parameters_.erase(parameters_.begin() + dropped);
  for (auto& node : nodes_)
    for (int& index : node.parameters) index = index == dropped ? kept : index > dropped ? index - 1 : index;
}

void Graph::loss(Value value) {
  require(node_of(value.id) >= 0 && node_of(value.id) < static_cast<int>(nodes_.size()), "graph: the loss needs to be the value of a node");
  loss_ = node_of(value.id);
}

void Graph::output(Value value) {
  require(node_of(value.id) >= 0 && node_of(value.id) < static_cast<int>(nodes_.size()),
          "graph: the output needs to be the value of a node");
  output_ = node_of(value.id);
}

int Graph::loss_node() const {
  require(loss_ >= 0, "graph: has no loss; call Graph::loss with the value of a loss node");
  return loss_;
}

int Graph::output_node() const {
  require(output_ >= 0, "graph: has no output; call Graph::output with the value that predictions are read from");
  return output_;
}

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (const auto& parameter : parameters_) count += parameter.spec.shape.elements();
  return count;
}

int64_t Graph::parameter_count(int node) const {
  int64_t count = 0;
  for (int index : nodes_[node].parameters)
    if (parameters_[index].nodes.front() == node) count += parameters_[index].spec.shape.elements();
  return count;
}

}  // namespace sluice::layers
