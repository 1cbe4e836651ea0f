#include "training/attention_map.h"

#include "core/suggestion.h"
#include "layers/tables.h"

namespace sluice::training {

namespace {

const layers::Graph::Node& node_named(const layers::Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) {
    if (node.name == name) return node;
    names.push_back(node.name);
  }
  throw UsageError(join("attention_map: the model has no node '", name, "'", suggestion(name, names)));
}

/// In the module's order.
layers::Given<layers::Role::parameter> parameters_of(const layers::Graph& graph, const layers::Graph::Node& node,
                                                     const parallel::Weights& weights) {
  layers::Given<layers::Role::parameter> parameters;
  for (const int parameter : node.parameters) {
    const std::string& name = graph.parameters()[static_cast<size_t>(parameter)].name;
    const auto found = weights.find(name);
    require(found != weights.end(), "attention_map: needs the weight '", name, "', got ", weights.size(),
            " others; give what load_parameters() reads");
    parameters.emplace_back(found->second.to(default_device()));
  }
  return parameters;
}

}  // namespace

Tensor attention_map(const layers::Graph& graph, const parallel::Weights& weights, const std::vector<DevicePtr>& devices,
                     const std::string& name, const std::map<std::string, Tensor>& inputs, const parallel::InferenceOptions& options) {
  const layers::Graph::Node& node = node_named(graph, name);
  const Batch batch = batch_of(inputs);
  const auto value_of = [&](int value) {
    if (graph.node_of(value) < 0) return batch.load(graph.inputs()[static_cast<size_t>(value)].name, 0, batch.samples);
    return parallel::InferencePipeline(graph.upstream_of(value), devices, weights, options).run(batch);
  };
  layers::Tables tables(default_device(), working_dtype(options.precision));
  std::vector<Tensor> maps;
  layers::Call call;
  call.parameters = parameters_of(graph, node, weights);
  call.tables = tables.of(*node.module);
  call.training = false;
  call.attention_weights = &maps;
  for (const int value : node.inputs) call.inputs.emplace_back(value_of(value));
  node.module->forward(call);
  require(maps.size() == 1, "attention_map: needs a node with one attention, '", name, "' (", layers::type_of(*node.module), ") has ",
          maps.size());
  return maps[0];
}

}  // namespace sluice::training
