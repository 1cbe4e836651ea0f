#pragma once
#include <string>

#include "layers/graph.h"

namespace sluice::layers {

/// A hash of what a model shows of itself, equal in all processes of one build: names, shapes and dtypes of its inputs; names and types of
/// its nodes and what they read; names, shapes, starts, decay and ties of parameters; statistics, tables, and which nodes are loss and
/// output; and, where shapes are known, the ops that each node records in training, with the shapes of what they save and their constants,
/// such as the probability of a dropout, an epsilon, whether attention is causal, a loss's smoothing.
/// What it cannot see are the numbers of a module that no op keeps for its backward in a form that write_attribute() knows, as one that is
/// added to a value; what it does otherwise in evaluation; all constants of nodes whose shapes are not known, or which look at elements; and
/// the modules of a composite that record nothing of their own. Compare the config that made the model as well.
/// Cost    every node is run once on a device that only counts.
/// Errors  what a node throws on such a device.
std::string model_digest(const Graph& graph);

}  // namespace sluice::layers
