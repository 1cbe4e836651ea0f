#pragma once
#include <map>
#include <string>
#include <vector>

#include "parallel/inference.h"

namespace sluice::training {

/// What the attention of one node of a trained model looks at: the weights that each query gives to the keys, head by head. What the node
/// reads is computed by forward-only pipelines over the devices, the node itself by its own module and weights on the host, so the weights
/// are of the queries and keys that the model has (layers::attention_weights).
///   const Tensor map = attention_map(net, weights, devices("cpu:0"), "decoder2.cross_attention", {{"source", source}, ...});
/// `inputs`  at least those that the node depends on; others are not read.
/// Shape   inputs by name [B, ...] -> f64 [B, H, T, S] of H heads, T queries and S keys; rows of padding are zeros.
/// Errors  UsageError for a node that is not there (with the nearest) or has not one attention, and as Predictor.
Tensor attention_map(const layers::Graph& graph, const parallel::Weights& weights, const std::vector<DevicePtr>& devices,
                     const std::string& node, const std::map<std::string, Tensor>& inputs, const parallel::InferenceOptions& options = {});

}  // namespace sluice::training
