#pragma once
#include <string_view>

#include "layers/graph.h"
#include "parallel/plan/plan.h"

namespace sluice::parallel {

/// Whether a part of NodeTimes can be one: not below 0 and below 9e18, so that sums of them are finite and bytes fit into 64 bits.
bool is_node_time(double value);

/// Refuses a plan whose fields cannot be right or do not belong together, whoever made it. All that takes a plan begins with this.
/// Errors  UsageError naming the field of Plan, what it needs and what it has.
void require_valid(const Plan& plan);

/// Errors  UsageError for a graph that has nothing in it, as one that was moved from.
void require_nodes(const layers::Graph& graph);

/// The same as of the plan alone, and that it is a plan of this graph.
void require_valid(const Plan& plan, const layers::Graph& graph);

/// Refuses devices that no plan can have: none, one that is missing or there twice, CPU devices mixed with GPUs or devices that only count,
/// and tf32 on GPUs that were made without it. `name` is what the message calls them.
void require_devices(const std::vector<DevicePtr>& devices, Precision precision, std::string_view name);

/// What every wait for another device may take at most. Errors  UsageError, beginning with the name of the field, for what is not above 0.
void require_timeout(double seconds, std::string_view name);

}  // namespace sluice::parallel
