#pragma once
#include <string>

#include "layers/graph.h"

namespace sluice::layers {

/// A hash of what a model shows of itself, equal in all processes of one build: names, shapes and dtypes of its inputs; names and types of
/// its nodes and what they read; names, shapes, starts, decay and ties of parameters; statistics, tables, and which nodes are loss and
/// output; and, where shapes are known, the ops that each node records, with the shapes of what they save.
/// What it cannot see are the numbers that a module keeps to itself: the probability of a dropout that is not zero, an epsilon, whether
/// attention is causal, a loss's smoothing, the modules of a composite that record nothing of their own. Compare the config that made
/// the model as well.
/// Cost    every node is run once on a device that only counts.
/// Errors  what a node throws on such a device.
std::string model_digest(const Graph& graph);

}  // namespace sluice::layers
