#pragma once
#include <vector>

#include "layers/graph.h"

namespace sluice::testing {

/// The values of all nodes of a graph that is run at once, in f64 and as training does, with parameters that are drawn from the seed (those
/// named gamma around 1). The inputs come in the graph's order.
std::vector<Var> run_in_f64(const layers::Graph& graph, const std::vector<Tensor>& inputs, std::vector<Var> parameters);
std::vector<Tensor> drawn_parameters(const layers::Graph& graph, uint64_t seed);

/// Compares the gradient of each parameter, along a random direction, with the central difference of the loss.
void expect_gradients_like_differences(const layers::Graph& graph, const std::vector<Tensor>& inputs);

}  // namespace sluice::testing
