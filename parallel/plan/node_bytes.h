#pragma once
#include "autograd/optim/optimizer.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "parallel/plan/profile.h"
#include "parallel/plan/search_watch.h"
#include "parallel/plan/stage_cost.h"

namespace sluice::parallel {

/// Counts what each node of a model keeps and needs for a micro-batch of `samples`, by running it once on a meta device.
/// The times of the result are zero.
/// Errors  UsageError when an input of the graph has no known shape; what a node throws, with its name. SearchTimeOver of `watch`.
ModelCost model_bytes(const layers::Graph& graph, int64_t samples, Precision precision, DeviceKind backend, const Optimizer& optimizer,
                      SearchWatch* watch = nullptr);

/// Writes what was measured or counted into a model's costs. `times` has one entry a node.
/// Errors  UsageError for another number of times, and times that are negative or not finite.
void set_times(ModelCost& model, const std::vector<NodeTimes>& times);

}  // namespace sluice::parallel
