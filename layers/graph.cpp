#include "layers/graph.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/name_pattern.h"
#include "core/suggestion.h"

namespace sluice::layers {

namespace {

uint64_t next_stamp() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

/// In quotes, with a question mark for what terminals and files may not be given.
std::string quoted(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return !is_printable(c); }, '?');
  return "'" + name + "'";
}

void require_name(const std::string& name, const std::string& whose) {
  require(!name.empty() && std::ranges::all_of(name, is_printable), "graph: needs a name of printable ASCII characters for every ", whose,
          ", got ", quoted(name));
}

void check_specs(const Graph::Node& node) {
  const std::string place = " of node '" + node.name + "'";
  for (const auto& spec : node.module->parameters()) {
    require_name(spec.name, "parameter" + place);
    require(spec.shape.elements() > 0, "graph: parameter '", spec.name, "'", place, " needs at least one element, got shape ", spec.shape,
            "; leave it out of Module::parameters()");
    check(spec.initializer, spec.shape, "graph: parameter '" + spec.name + "'" + place);
  }
  for (const auto& spec : node.module->statistics()) {
    if (!spec.name.empty()) require_name(spec.name, "statistic" + place);
    require(spec.channels > 0 && spec.momentum >= 0 && spec.momentum <= 1, "graph: statistic '", spec.name, "'", place,
            " needs channels > 0 and a momentum in [0, 1], got ", spec.channels, " and ", spec.momentum);
  }
}

}  // namespace

Graph::Graph() = default;
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void Graph::check_name(const std::string& name) const {
  require_name(name, "input and node");
  require(!names_.contains(name), "graph: the name '", name, "' is taken; names are those in checkpoints and must differ");
}

/// Throws when a tensor of the node has the name of another.
void Graph::check_tensors(const Node& node) const {
  std::set<std::string> own;
  for (const auto& tensor : tensor_names(*node.module)) {
    const std::string name = joined_name(node.name, tensor);
    const auto other = tensors_.find(name);
    require(other == tensors_.end() && own.insert(name).second, "graph: node '", node.name, "' has a tensor '", name, "', as node '",
            other == tensors_.end() ? node.name : other->second,
            "' has; checkpoints keep tensors by name, so rename one of the nodes or what it has");
  }
}

Value Graph::stamped(const std::string& name, std::optional<ValueType> type) {
  names_.insert(name);
  types_.push_back(std::move(type));
  stamps_.push_back(next_stamp());
  return {static_cast<int>(stamps_.size()) - 1, stamps_.back()};
}

int Graph::id_of(const std::string& what, Value value) const {
  require(value.id >= 0 && value.id < static_cast<int>(stamps_.size()) && stamps_[value.id] == value.stamp, "graph: ", what,
          " needs values that this graph made before, got one of another graph or of none; use what its input() and add() return");
  return value.id;
}

int Graph::node_with(const std::string& what, Value value) const {
  const int node = node_of(id_of(what, value));
  require(node >= 0, "graph: ", what, " needs to be the value of a node, got an input");
  return node;
}

Value Graph::input(std::string name) {
  require(nodes_.empty(), "graph: needs all inputs before the first node, got input ", quoted(name), " after it");
  check_name(name);
  inputs_.push_back({std::move(name), std::nullopt, DType::f32});
  return stamped(inputs_.back().name, std::nullopt);
}

Value Graph::input(std::string name, const Shape& sample_shape, DType dtype) {
  const auto type = ValueType::of_samples(sample_shape, dtype);
  const Value value = input(std::move(name));
  inputs_.back().sample_shape = sample_shape;
  inputs_.back().dtype = dtype;
  types_.back() = type;
  return value;
}

namespace {

/// What a node's module makes of such inputs. Errors  what it finds wrong with them, naming the node.
std::optional<ValueType> tried_output(const Graph::Node& node, const std::vector<ValueType>& inputs, int64_t samples,
                                      std::vector<Shape>& losses) {
  try {
    return output_type(*node.module, inputs, samples, losses);
  } catch (const UsageError& error) {
    throw UsageError(join("graph: node '", node.name, "' (", type_of(*node.module), "), tried with ", samples, " samples: ", error.what()));
  }
}

}  // namespace

std::optional<ValueType> Graph::output_of(const Node& node, std::vector<Shape>& losses) const {
  std::vector<ValueType> known;
  for (int value : node.inputs)
    if (types_[value]) known.push_back(*types_[value]);
  return known.size() < node.inputs.size() ? std::nullopt : tried_output(node, known, ValueType::kSamples, losses);
}

namespace {

/// Twice as many samples as others are tried with: what divides those divides these.
constexpr int64_t kDoubled = 2 * ValueType::kSamples;

/// What a module makes of such inputs; nothing where one is not known or the module refuses them.
std::optional<ValueType> type_if_known(const Module& module, const std::vector<std::optional<ValueType>>& inputs,
                                       std::vector<Shape>& losses) {
  std::vector<ValueType> known;
  for (const auto& input : inputs) {
    if (!input) return std::nullopt;
    known.push_back(*input);
  }
  try {
    return output_type(module, known, kDoubled, losses);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// The shape of some samples and that of twice as many differ in the first axis alone, which counts them.
bool has_samples_first(const Shape& some, const Shape& doubled) {
  return some.rank() > 0 && some.rank() == doubled.rank() && some[0] == ValueType::kSamples && doubled[0] == kDoubled &&
         some.without(0) == doubled.without(0);
}

}  // namespace

const std::optional<ValueType>& Graph::doubled_type(int value) {
  while (static_cast<int>(doubled_.size()) <= value) {
    const int next = static_cast<int>(doubled_.size()), number = node_of(next);
    if (number < 0) {
      const Input& input = inputs_[next];
      doubled_.push_back(input.sample_shape ? std::optional(ValueType::of_samples(*input.sample_shape, input.dtype, kDoubled))
                                            : std::nullopt);
      continue;
    }
    std::vector<std::optional<ValueType>> inputs;
    for (const int read : nodes_[number].inputs) inputs.push_back(doubled_[read]);
    std::vector<Shape> losses;
    doubled_.push_back(type_if_known(*nodes_[number].module, inputs, losses));
  }
  return doubled_[value];
}

/// Where another axis has as many places as there are samples, shapes may fit by chance: then they do not with twice as many samples.
void Graph::check_chance(const Node& node) {
  const auto is_ambiguous = [&](int value) {
    const auto& type = types_[value];
    return type && type->shape.rank() > 1 && std::ranges::count(type->shape.extents().subspan(1), ValueType::kSamples) > 0;
  };
  if (std::ranges::none_of(node.inputs, is_ambiguous)) return;
  std::vector<ValueType> doubled;
  for (const int read : node.inputs) {
    if (!doubled_type(read)) return;
    doubled.push_back(*doubled_type(read));
  }
  std::vector<Shape> losses;
  tried_output(node, doubled, kDoubled, losses);
}

/// A Loss whose losses have the samples along two axes, such as [B, 1] - [B], sums over pairs.
void Graph::check_losses(const Node& node, const std::vector<Shape>& losses) {
  std::vector<std::optional<ValueType>> inputs;
  for (const int read : node.inputs) inputs.push_back(doubled_type(read));
  std::vector<Shape> doubled;
  type_if_known(*node.module, inputs, doubled);
  for (size_t i = 0; i < std::min(losses.size(), doubled.size()); ++i)
    require(has_samples_first(losses[i], doubled[i]), "graph: node '", node.name, "' (", type_of(*node.module),
            ") needs losses with the samples along the first axis alone, makes ", losses[i], " of ", ValueType::kSamples, " samples and ",
            doubled[i], " of ", kDoubled, "; where inputs such as [B, 1] and [B] broadcast to pairs of samples, give them one shape");
}

Value Graph::add_node(std::string name, ModulePtr module, Value input) {
  return add_node(std::move(name), std::move(module), std::vector<Value>{input});
}

Value Graph::add_node(std::string name, ModulePtr module, const std::vector<Value>& inputs) {
  check_name(name);
  require(module != nullptr, "graph: node '", name, "' needs a module, got a null pointer");
  Node node{std::move(name), std::move(module), {}, {}, {}};
  const std::string subject = "node '" + node.name + "'";
  for (Value value : inputs) node.inputs.push_back(id_of(subject, value));
  if (!takes(*node.module, inputs.size())) refuse_inputs("graph: " + subject, *node.module, inputs.size());
  check_specs(node);
  check_tensors(node);
  std::vector<Shape> losses;
  const auto type = output_of(node, losses);
  check_chance(node);
  if (!losses.empty()) check_losses(node, losses);
  const int number = static_cast<int>(nodes_.size());
  for (auto& spec : node.module->parameters()) {
    node.parameters.push_back(static_cast<int>(parameters_.size()));
    parameters_.push_back({.name = node.name + "." + spec.name, .spec = spec, .nodes = {number}, .frozen = !spec.trained});
  }
  for (auto& spec : node.module->statistics()) {
    node.statistics.push_back(static_cast<int>(statistics_.size()));
    statistics_.push_back({joined_name(node.name, spec.name), spec});
  }
  for (const auto& tensor : tensor_names(*node.module)) tensors_[joined_name(node.name, tensor)] = node.name;
  nodes_.push_back(std::move(node));
  return stamped(nodes_.back().name, type);
}

namespace {

std::vector<std::string> names_of(const Graph::Parameter& parameter) {
  std::vector<std::string> names{parameter.name};
  names.insert(names.end(), parameter.tied_names.begin(), parameter.tied_names.end());
  return names;
}

}  // namespace

int Graph::parameter_index(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto its_names = names_of(parameters_[i]);
    if (std::ranges::find(its_names, name) != its_names.end()) return static_cast<int>(i);
    names.insert(names.end(), its_names.begin(), its_names.end());
  }
  throw UsageError(join("graph: there is no parameter '", name, "'", suggestion(name, names)));
}

void Graph::tie(const std::string& earlier, const std::string& later) {
  const int kept = parameter_index(earlier), dropped = parameter_index(later);
  require(kept != dropped, "tie: '", earlier, "' and '", later, "' are one parameter already");
  const auto called = [&](int parameter, const std::string& name) {
    const std::string& own = parameters_[parameter].name;
    return own == name ? join("'", name, "'") : join("'", name, "' (tied to '", own, "')");
  };
  require(kept < dropped, "tie: needs ", called(kept, earlier), " to come before ", called(dropped, later),
          " in the graph; exchange the two");
  require(parameters_[kept].spec.shape == parameters_[dropped].spec.shape, "tie: needs equal shapes, got ", parameters_[kept].spec.shape,
          " for '", earlier, "' and ", parameters_[dropped].spec.shape, " for '", later, "'");
  auto& uses = parameters_[kept].nodes;
  for (int node : parameters_[dropped].nodes)
    require(std::ranges::find(uses, node) == uses.end(), "tie: node '", nodes_[node].name, "' uses '", earlier, "' already, '", later,
            "' is another of its parameters; give its module one parameter and let it read that twice");
  parameters_[kept].frozen = parameters_[kept].frozen || parameters_[dropped].frozen;
  const auto names = names_of(parameters_[dropped]);
  parameters_[kept].tied_names.insert(parameters_[kept].tied_names.end(), names.begin(), names.end());
  uses.insert(uses.end(), parameters_[dropped].nodes.begin(), parameters_[dropped].nodes.end());
  std::ranges::sort(uses);
  parameters_.erase(parameters_.begin() + dropped);
  for (auto& node : nodes_)
    for (int& index : node.parameters) index = index == dropped ? kept : index > dropped ? index - 1 : index;
}

void Graph::initialize(const std::string& parameter, const Initializer& start) {
  ParameterSpec& spec = parameters_[parameter_index(parameter)].spec;
  check(start, spec.shape, "graph: parameter '" + parameter + "'");
  spec.initializer = start;
}

void Graph::freeze(const std::string& pattern) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters_) std::ranges::copy(names_of(parameter), std::back_inserter(names));
  require_matches("graph: freeze", pattern, names);
  for (auto& parameter : parameters_)
    parameter.frozen = parameter.frozen ||
                       std::ranges::any_of(names_of(parameter), [&](const std::string& name) { return matches_pattern(pattern, name); });
}

void Graph::loss(Value value) {
  const int node = node_with("the loss", value);
  require(losses_.empty() || losses_[0] == node, "graph: the loss is node '", losses_.empty() ? "" : nodes_[losses_[0]].name,
          "' already, got '", nodes_[node].name, "' too; add several losses up in a node of their own");
  const auto& type = types_[value.id];
  require(!type || type->shape.elements() == 1, "graph: the loss needs to be a single number, node '", nodes_[node].name, "' makes ",
          type ? type->shape : Shape(), " of ", ValueType::kSamples, " samples; sum it up");
  losses_ = {node};
}

void Graph::output(Value value) {
  const int node = node_with("an output", value);
  if (const auto& type = types_[value.id]) {
    const auto& doubled = doubled_type(value.id);
    const bool is_known = doubled.has_value();
    const bool fits =
        is_known ? has_samples_first(type->shape, doubled->shape) : type->shape.rank() > 0 && type->shape[0] == ValueType::kSamples;
    require(fits, "graph: output '", nodes_[node].name, "' (", type_of(*nodes_[node].module),
            ") needs the samples along its first axis alone, makes ", type->shape, " of ", ValueType::kSamples, " samples",
            is_known ? join(" and ", doubled->shape, " of ", kDoubled) : "",
            "; outputs of micro-batches are joined along that axis, so give one that has a row for each sample");
  }
  if (std::ranges::find(outputs_, node) == outputs_.end()) outputs_.push_back(node);
}

void Graph::check_samples(int input, const Tensor& samples) const {
  const auto& [name, sample_shape, dtype] = inputs_[input];
  require(!sample_shape || samples.dtype() == dtype, "batch: input '", name, "' needs samples of ", name_of(dtype),
          ", as it was declared, got ", name_of(samples.dtype()), "; convert them, or declare the input as ", name_of(samples.dtype()));
}

int Graph::loss_node() const {
  require(has_loss(), "graph: has no loss; call Graph::loss with the value of a loss node");
  return losses_[0];
}

int Graph::output_node() const {
  require(!outputs_.empty(), "graph: has no output; call Graph::output with the value that predictions are read from");
  return outputs_.front();
}

std::set<int> Graph::values_upstream(const std::vector<int>& values, const std::set<int>& given) const {
  std::set<int> upstream;
  std::vector<int> open = values;
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    if (!upstream.insert(next).second || given.contains(next) || node_of(next) < 0) continue;
    const auto& inputs = nodes_[node_of(next)].inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return upstream;
}

/// Adds a node of the whole graph. `values` and `parameters` say what its are here.
void Graph::adopt(const Graph& whole, int node, std::map<int, int>& values, std::map<int, int>& parameters) {
  const Node& original = whole.nodes_[node];
  Node mine{original.name, original.module, {}, {}, {}};
  const int number = static_cast<int>(nodes_.size());
  for (const int value : original.inputs) mine.inputs.push_back(values.at(value));
  for (const int index : original.parameters) {
    const auto [place, is_new] = parameters.try_emplace(index, static_cast<int>(parameters_.size()));
    if (is_new) parameters_.emplace_back(whole.parameters_[index]).nodes.clear();
    auto& uses = parameters_[place->second].nodes;
    if (uses.empty() || uses.back() != number) uses.push_back(number);
    mine.parameters.push_back(place->second);
  }
  for (const int index : original.statistics) {
    mine.statistics.push_back(static_cast<int>(statistics_.size()));
    statistics_.push_back(whole.statistics_[index]);
  }
  for (const auto& tensor : tensor_names(*mine.module)) tensors_[joined_name(mine.name, tensor)] = mine.name;
  nodes_.push_back(std::move(mine));
  values[whole.value_of(node)] = stamped(original.name, whole.types_[whole.value_of(node)]).id;
}

Graph Graph::upstream_of(int value, const std::set<int>& given) const { return upstream_of(std::vector<int>{value}, given); }

Graph Graph::upstream_of(const std::vector<int>& outputs, const std::set<int>& given) const {
  for (const int value : outputs)
    require(node_of(value) >= 0 && node_of(value) < static_cast<int>(nodes_.size()) && !given.contains(value),
            "graph: upstream_of needs the value of a node that is not given, got value ", value);
  Graph part;
  std::map<int, int> values, parameters;
  const std::set<int> upstream = values_upstream(outputs, given);
  for (const int made : upstream) {  // ascending: inputs first
    if (node_of(made) < 0) {
      const Input& input = inputs_[made];
      values[made] = (input.sample_shape ? part.input(input.name, *input.sample_shape, input.dtype) : part.input(input.name)).id;
    } else if (given.contains(made)) {
      const auto& name = nodes_[node_of(made)].name;
      require(types_[made].has_value(), "graph: upstream_of needs a known shape of '", name, "'; declare the inputs with their shapes");
      values[made] = part.input(name, types_[made]->shape.without(0), DType::f32).id;
    }
  }
  for (const int made : upstream)
    if (node_of(made) >= 0 && !given.contains(made)) part.adopt(*this, node_of(made), values, parameters);
  for (const int value : outputs) part.outputs_.push_back(part.node_of(values.at(value)));
  return part;
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
