#pragma once
#include <map>
#include <string>
#include <vector>

#include "layers/graph.h"
#include "models/transformer.h"

namespace sluice::testing {

models::TransformerOptions small_language_model(models::PositionEncoding positions = models::PositionEncoding::rotary);

/// Drawn, so that no two tokens are alike.
std::map<std::string, Tensor> drawn_weights(const layers::Graph& graph);

/// The graph's output for a whole sequence, without a cache: logits of the last token.
std::vector<double> logits_of(const layers::Graph& graph, const std::map<std::string, Tensor>& weights, const std::vector<int32_t>& tokens);

}  // namespace sluice::testing
