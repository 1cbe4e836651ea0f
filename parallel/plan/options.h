#pragma once
#include <functional>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "layers/graph.h"
#include "parallel/plan/choices.h"
#include "parallel/plan/plan.h"
#include "parallel/plan/search_watch.h"

namespace sluice::parallel {

/// Seconds of every node for a micro-batch of `samples` samples on a device like this one: profile_nodes or counted_nodes.
using NodeTimer = std::function<std::vector<NodeTimes>(int64_t samples, const DevicePtr& device)>;

/// Some of the devices for each of so many replicas, and what a step would take then.
struct ReplicaTrial {
  int replicas = 1;
  int devices_of_replica = 1;
  ReplicaDevices replica_devices = ReplicaDevices::together;
  bool fits = false;
  bool is_bound = false;    ///< no step takes less than step_seconds, so that no plan was made
  double step_seconds = 0;  ///< 0 for one that does not fit
  double bubble = 0;        ///< 0 for a bound
  int64_t peak_bytes = 0;   ///< of the device that holds most; 0 for a bound
  std::string obstacle{};   ///< what holds it up most: "node 'logits' is 22 % of the work of 8 devices"; why it does not fit
};

/// What the user leaves open or fixes. What is open is chosen together, for the fastest step within the devices' budgets.
struct PlanOptions {
  int64_t batch = 1;  ///< samples a mini-batch
  CountChoice micro_batches = 1;
  ScheduleChoice schedule = NamedSchedule::one_f_one_b;
  PartitionChoice partition = kOpen;  ///< a given one: the nodes of each stage
  RematChoice remat = Remat::none;
  Precision precision = Precision::f32;
  int64_t memory = kUnlimited;  ///< bytes a device; unlimited leaves the devices' own budgets
  CountChoice replicas = 1;     ///< pipelines side by side, with equally many of the devices each
  ReplicaDevicesChoice replica_devices = kOpen;
  int fold_blocks = 0;                   ///< Replication::fold_blocks; 0: one a replica
  bool shards_optimizer = true;          ///< Replication::shards_optimizer, where the optimizer can step parts of parameters
  const Optimizer* optimizer = nullptr;  ///< whose states need room; null: AdamW's
  NodeTimer times{};          ///< asked once a kind of device and size of micro-batch; empty: counted at nominal speeds (nominal_speed)
  double search_seconds = 0;  ///< after which the search, over all replicas, ends with the best plan that it has; 0 = no limit
  SearchWatch::Report progress{};  ///< called some times a second while the plan is searched; what it throws ends plan()
  std::function<void(const ReplicaTrial&)>
      tried{};  ///< called before plan() returns, for each that was weighed: where replicas are open, or which of unlike devices they have
};

/// Chooses what is open and checks everything that can be checked before work.
/// A plan that fits no budget is returned all the same, the one that comes nearest: `predict` says what it lacks.
/// Every device is planned with its own speed, bytes and budget. Of several replicas the first one's devices are planned for the largest share
/// of the mini-batch and the least budgets, and the others do as it does. What they exchange at the end of a step is weighed in the number of
/// replicas, where that is open, and not in the cut of each.
/// Errors  UsageError for more stages than nodes, M > batch, another M than a fixed schedule's, a partition that does not fit, tf32 on CUDA
///         devices made without allow_tf32, an input without a shape where something is searched; each names the field of PlanOptions, or
///         the node, and the cure.
Plan plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options);

}  // namespace sluice::parallel
