#pragma once
#include <optional>
#include <vector>

#include "parallel/plan/options.h"
#include "parallel/plan/predict.h"
#include "parallel/plan/search_watch.h"

/// Plans for a number of replicas that is given, on devices of which each has its own.
namespace sluice::parallel {

/// What the replica with most micro-batches has of it all, on the devices of the first one.
struct FirstReplica {
  std::vector<DevicePtr> devices;
  PlanOptions options;
};
/// Errors  UsageError for samples, micro-batches or a schedule of the user's own that are too few for so many replicas.
FirstReplica first_replica(const std::vector<DevicePtr>& devices, PlanOptions options, int replicas, ReplicaDevices which);

bool shards_optimizer(const PlanOptions& options);
Replication replication_of(const PlanOptions& options, int replicas);

/// The options with what is left of the time.
PlanOptions within(PlanOptions options, const SearchWatch& watch);

/// The whole step, exchange and optimizer included, at the devices' nominal speeds. Seconds and bytes.
Prediction predicted_step(const layers::Graph& graph, const Plan& plan, const PlanOptions& options);

struct PlanOfReplicas {
  Plan plan;
  std::optional<Prediction> step;  ///< where it was predicted on the way
};

/// The first replica is planned, and the others do as it does. Its search does not know of the exchange, beside which fewer and larger
/// micro-batches may be faster: where their number is open, halves of it are predicted as long as the whole step gets shorter.
/// Errors  UsageError as first_replica(), and those of `plan`.
PlanOfReplicas plan_of_given_replicas(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options,
                                      int replicas, ReplicaDevices which);

}  // namespace sluice::parallel
