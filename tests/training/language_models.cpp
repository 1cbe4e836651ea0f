#include "tests/training/language_models.h"

#include "layers/tables.h"

namespace sluice::testing {

models::TransformerOptions small_language_model(models::PositionEncoding positions) {
  return {.layers = 2, .dim = 16, .heads = 2, .vocab = 23, .context = 20, .positions = positions};
}

std::map<std::string, Tensor> drawn_weights(const layers::Graph& graph) {
  std::map<std::string, Tensor> weights;
  for (const auto& description : graph.parameters()) {
    const Tensor value = empty(description.spec.shape);
    fill_normal(value, description.spec.shape.rank() == 1 ? 1 : 0, 0.3, random_key(1, description.name));
    weights[description.name] = value;
  }
  return weights;
}

std::vector<double> logits_of(const layers::Graph& graph, const std::map<std::string, Tensor>& weights,
                              const std::vector<int32_t>& tokens) {
  std::vector<Tensor> values(graph.inputs().size());
  const auto count = static_cast<int64_t>(tokens.size());
  values[0] = tensor_of({tokens.begin(), tokens.end()}, {1, count}, DType::i32);
  layers::Tables tables(default_device(), DType::f32);
  for (int node = 0; node <= graph.output_node(); ++node) {
    const auto& description = graph.nodes()[static_cast<size_t>(node)];
    layers::Call call;
    call.tables = tables.of(*description.module);
    call.training = false;
    for (const int value : description.inputs) call.inputs.emplace_back(values[static_cast<size_t>(value)]);
    for (const int parameter : description.parameters)
      call.parameters.emplace_back(weights.at(graph.parameters()[static_cast<size_t>(parameter)].name));
    values.push_back(description.module->forward(call).value());
  }
  return values.back().slice(1, count - 1, count).to_vector();
}

}  // namespace sluice::testing
