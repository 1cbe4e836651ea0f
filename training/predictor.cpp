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

}  // namespace

Predictor::Predictor(const layers::Graph& graph, const parallel::Weights& weights, std::vector<DevicePtr> devices,
                     const parallel::InferenceOptions& options)
    : pipeline_(graph.upstream_of(graph.value_of(graph.output_node())), std::move(devices), weights, options) {}

Tensor Predictor::predict(const std::map<std::string, Tensor>& inputs) {
  const auto names = input_names(pipeline_.graph());
  for (const auto& [name, value] : inputs)
    require(std::ranges::count(names, name) > 0, "predict: the output depends on no input '", name, "'", suggestion(name, names));
  for (const auto& name : names) require(inputs.contains(name), "predict: needs input '", name, "', got ", inputs.size(), " others");
  return pipeline_.run(batch_of(inputs));
}

}  // namespace sluice::training
