#pragma once
#include "parallel/plan/options.h"
#include "parallel/plan/search_watch.h"
#include "parallel/plan/stage_cost.h"

namespace sluice::parallel {

/// Whose states are planned for.
const Optimizer& optimizer_of(const PlanOptions& options);

/// What the nodes take on a device, of a micro-batch of `samples` in a step of `micro_batches`: measured, or counted.
/// Errors  as counted_nodes, and what `options.times` throws.
std::vector<NodeTimes> node_times(const layers::Graph& graph, const PlanOptions& options, const DevicePtr& device, int64_t samples,
                                  int micro_batches, SearchWatch& watch);

/// The first device of each kind.
std::vector<DevicePtr> one_of_each_kind(const std::vector<DevicePtr>& devices);

/// What the nodes take on each kind of device when the mini-batch is cut into `micro_batches`; of uneven micro-batches the largest.
/// Errors  as node_times and model_bytes.
ModelCosts model_costs(const layers::Graph& graph, const PlanOptions& options, const std::vector<DevicePtr>& devices, int micro_batches,
                       SearchWatch& watch);

}  // namespace sluice::parallel
