#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "core/device.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "parallel/plan/profile.h"
#include "parallel/plan/search_watch.h"
#include "parallel/program/partition.h"
#include "parallel/program/schedule.h"
#include "parallel/program/topology.h"
#include "parallel/run/trace.h"
#include "parallel/schedule/search.h"

namespace sluice::parallel {

/// How a model is trained: which nodes on which device, how many micro-batches, in which order, what is rematerialized, in which
/// numbers. `plan` makes one; one that is made by hand is checked wherever it is taken (plan_check.h).
struct Plan {
  std::vector<DevicePtr> devices;
  Partition partition;          ///< into stages, which the schedule places on the devices, or their segments
  std::vector<int> segments{};  ///< by stage: how many parts of it are recomputed one after the other (in_segments); empty: one each
  int micro_batches = 1;
  std::string schedule = "gpipe";    ///< of make_schedule; with `orders` any name
  std::optional<Schedule> orders{};  ///< of "auto" or of a file; empty: made by name, for any number of micro-batches
  std::vector<bool> rematerialize;   ///< by node
  Precision precision = Precision::f32;
  StageCosts chain{};  ///< what "auto" was searched with: it is searched again for another number of micro-batches
  /// By kind of device (device_kinds) and node, one micro-batch: what predictions use; empty: counted at the devices' speeds.
  std::vector<std::vector<NodeTimes>> times{};
  double bound_seconds = 0;  ///< the step of no plan of the same choices takes less; 0 when nothing was searched
  /// No plan of the same choices that fits is faster, by the nodes' times added up over a chain of stages. Claimed for models that are a
  /// chain without tied parameters, without crowding, when all plans were tried, and none that is faster was ruled out for bytes that are only estimated.
  bool is_exact = false;
  bool is_out_of_time = false;  ///< PlanOptions::search_seconds ended the search: the best plan until then
};

/// By device: the number of its kind, counted from 0 in the order in which kinds appear. Devices of one kind take the same times and bytes.
std::vector<int> device_kinds(const std::vector<DevicePtr>& devices);

/// The nodes of each stage of a plan, its segments together.
std::vector<int> stage_sizes(const Plan& plan);

/// The device of each part of a plan's partition.
/// Errors  UsageError for a plan that is wrong in itself.
std::vector<int> device_of_stage(const Plan& plan);

/// The order of work of a plan cut into `micro_batches`. That of "auto" is searched for another number than the plan's, whatever the
/// budgets; a trainer's keeps to them.
/// Errors  UsageError for a plan that is wrong in itself, and for a schedule from a file that is for another number.
Schedule schedule_of(const Plan& plan, int micro_batches);

/// Seconds of every node for a micro-batch of `samples` samples on a device like this one: profile_nodes or counted_nodes.
using NodeTimer = std::function<std::vector<NodeTimes>(int64_t samples, const DevicePtr& device)>;

/// What the user leaves open or fixes. What is open is chosen together, for the fastest step within the devices' budgets.
struct PlanOptions {
  int64_t batch = 1;                       ///< samples a mini-batch
  int micro_batches = 1;                   ///< 0 = open
  std::string schedule = "1f1b";           ///< of make_schedule; "auto" = open, the orders of work too
  std::optional<Schedule> orders{};        ///< a schedule of the user's own; its micro-batches and stages hold
  int virtual_stages = 1;                  ///< stages a device, where the schedule leaves them open; 0 = open
  std::string partition = "auto";          ///< auto (open), parameters, uniform, or list
  std::vector<int> sizes{};                ///< nodes a stage, for partition = "list"
  std::string remat = "none";              ///< none, full, auto (open) or list
  std::vector<std::string> remat_nodes{};  ///< names of nodes, for remat = "list"
  Precision precision = Precision::f32;
  int64_t memory = kUnlimited;           ///< bytes a device; unlimited leaves the devices' own budgets
  const Optimizer* optimizer = nullptr;  ///< whose states need room; null: AdamW's
  NodeTimer times{};                     ///< asked once a kind of device and size of micro-batch; empty: counted at the devices' speeds
  double search_seconds = 0;             ///< after which the search ends with the best plan that it has; 0 = no limit
  SearchWatch::Report progress{};        ///< called some times a second while the plan is searched; what it throws ends plan()
};

/// The part of a graph that partitioning and lowering need. Which modules leave out gradients shows in a recording for one sample on a meta
/// device; a module that cannot be recorded is taken to make all of them.
/// Errors  UsageError for a parameter that the loss does not depend on.
Topology topology_of(const layers::Graph& graph);

/// Chooses what is open and checks everything that can be checked before work.
/// A plan that fits no budget is returned all the same, the one that comes nearest: `predict` says what it lacks.
/// Every device is planned with its own speed, bytes and budget.
/// Errors  UsageError for more stages than nodes, M > batch, an unknown name, a list that does not fit, tf32 on CUDA devices made without
///         allow_tf32, an input without a shape where something is searched; each names the field of PlanOptions, or the node, and the
///         cure.
Plan plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options);

/// What a training step will take, from the executor run on meta devices. Bytes are exact for CPU devices.
struct DevicePrediction {
  std::string name;
  int64_t parameter_bytes = 0, gradient_bytes = 0, optimizer_bytes = 0;
  int64_t activation_peak_bytes = 0;  ///< peak less parameters, gradients and optimizer state
  int64_t peak_bytes = 0, budget_bytes = 0;
};
struct Prediction {
  bool fits = true;
  std::string reason;       ///< of a refusal: the OutOfMemory message, and which devices lack how many bytes
  double step_seconds = 0;  ///< on the devices' clocks
  double bubble = 0;        ///< 1 - mean busy time / step time
  double flops = 0;         ///< of one step, recomputation included
  std::vector<DevicePrediction> devices;
  Trace trace;  ///< of one step, on the devices' clocks; empty when it does not fit
};
/// Of each device: one speed for all, or one by device.
class DeviceSpeeds {
 public:
  DeviceSpeeds() = default;
  DeviceSpeeds(const DeviceSpeed& all) : all_(all) {}
  DeviceSpeeds(std::vector<DeviceSpeed> by_device) : by_device_(std::move(by_device)) {}

  /// Errors  UsageError where there is a speed for some devices only.
  const DeviceSpeed& of(size_t device) const {
    require(by_device_.empty() || device < by_device_.size(), "predict: needs a speed for every device or one for all, got ",
            by_device_.size());
    return by_device_.empty() ? all_ : by_device_[device];
  }

 private:
  DeviceSpeed all_{};
  std::vector<DeviceSpeed> by_device_{};
};

/// With the plan's `times` its program is simulated with them; otherwise each op takes what the device's speed says. Transfers between
/// devices take bytes / link_bytes_per_second + link_latency, of the slower of both ends.
/// Errors  UsageError for a plan that cannot be run (plan_check.h).
Prediction predict(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, const DeviceSpeeds& speeds);

/// The same of evaluating `batch` samples between two steps (Trainer::evaluate): only fits, reason and devices are filled in.
Prediction predict_evaluation(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, bool with_output);

}  // namespace sluice::parallel
