#include "training/predictor.h"

#include <algorithm>

#include "core/suggestion.h"

namespace sluice::training {

namespace {

std::vector<std::string> input_names(const layers::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& input : graph.inputs()) names.push_back(input.name);
  return names;
}

std::vector<int> output_values(const layers::Graph& graph) {
  graph.output_node();  // throws where there is none
  std::vector<int> values;
  for (const int node : graph.output_nodes()) values.push_back(graph.value_of(node));
  return values;
}

}  // namespace

Predictor::Predictor(const layers::Graph& graph, const parallel::Weights& weights, std::vector<DevicePtr> devices,
                     const parallel::InferenceOptions& options)
    : pipeline_(graph.upstream_of(output_values(graph)), std::move(devices), weights, options) {}

Predictor::Predictor(const layers::Graph& graph, const parallel::Checkpoint& checkpoint, std::vector<DevicePtr> devices,
                     const parallel::InferenceOptions& options)
    : Predictor(graph, parallel::load_parameters(checkpoint, graph, options.precision), std::move(devices), options) {}

Tensor Predictor::predict(const std::map<std::string, Tensor>& inputs) { return pipeline_.run(checked(inputs)); }

std::map<std::string, Tensor> Predictor::predict_all(const std::map<std::string, Tensor>& inputs) {
  return pipeline_.run_all(checked(inputs));
}

Batch Predictor::checked(const std::map<std::string, Tensor>& inputs) const {
  const auto names = input_names(pipeline_.graph());
  for (const auto& [name, value] : inputs)
    require(std::ranges::count(names, name) > 0, "predict: the output depends on no input '", name, "'", suggestion(name, names));
  for (const auto& name : names) require(inputs.contains(name), "predict: needs input '", name, "', got ", inputs.size(), " others");
  return batch_of(inputs);
}

}  // namespace sluice::training
