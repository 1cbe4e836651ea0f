#pragma once
#include "parallel/plan/model_costs.h"
#include "parallel/plan/options.h"
#include "parallel/plan/search.h"

namespace sluice::parallel {

/// What the devices of one of several replicas hold otherwise than those of a pipeline alone.
struct ReplicaShare {
  int state_shards = 1;            ///< so many replicas have a part of the optimizer's states each
  std::vector<int64_t> budgets{};  ///< by device: bytes that the plan may take; empty: the device's own budget
};

/// Chooses what is open, see PlanOptions, and proves its bytes: what the search estimates near a budget, and what it finds, is counted by the
/// executor on meta devices.
/// `share`: where the devices are those of one of several replicas, what they have to do with the others.
Plan choose_plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options, PlanChoices choices,
                 const ReplicaShare& share = {});

/// The plan of one pipeline, whatever the options say of replicas.
Plan plan_of_pipeline(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options,
                      const ReplicaShare& share = {});

/// What no step of any plan takes less than (bound_seconds), over all numbers of micro-batches that may be chosen.
struct StepBound {
  double seconds = 0;
  int micro_batches = 0;  ///< with which it is least
  ModelCosts costs{};     ///< the times of as many
};
/// `options` and `devices` are those of one of `replicas` which share a mini-batch of `batch` samples. Counted micro-batches are taken to be
/// as small as the smallest; of measured ones all are as large as the largest, as predictions take them.
/// Errors  UsageError for devices and options that no plan is made for; SearchTimeOver.
StepBound step_bound(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int64_t batch,
                     int replicas, SearchWatch& watch);

/// The bytes that each device will hold at most, exact, whatever the budgets: one step on meta devices.
std::vector<int64_t> counted_peak_bytes(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch);

}  // namespace sluice::parallel
