#pragma once
#include <limits>
#include <string>
#include <vector>

#include "parallel/plan/options.h"

namespace sluice::parallel {

/// A plan for a number of replicas; they do as the first one, whose devices are planned for its share of the mini-batch
/// (plan_of_given_replicas). Where it is open which devices they have, and the devices differ or are in several hosts, both ways are planned.
/// Errors  UsageError for replicas that cannot share devices, micro-batches or fold blocks equally, and those of `plan`.
Plan plan_of_replicas(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int replicas);

/// The fastest of the plans for all numbers of replicas among which the devices can be shared, within the budgets.
/// A replicated step is predicted whole, exchange and optimizer included. A number of replicas with which no step can be as fast as that
/// of another number (step_bound, and the bytes between replicas) is not planned, nor is one that comes when `options.search_seconds` are over, if there is a plan.
/// `options.tried` is told of all of them, in the order of their numbers. `least` and `most`: of replicas.
/// Errors  UsageError of the fewest replicas when no number of them can be planned.
Plan plan_of_open_replicas(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int least = 1,
                           int most = std::numeric_limits<int>::max());

/// The numbers of replicas that can have equally many of so many devices, ascending.
std::vector<int> replica_numbers(int devices);

/// "4 replicas of 2 devices: 1.31 times as fast as one pipeline of 8 devices, because ...": of the fastest of `trials`, against the one of most stages that
/// could be planned. Empty for less than two.
std::string why_so_many_replicas(const std::vector<ReplicaTrial>& trials);

}  // namespace sluice::parallel
