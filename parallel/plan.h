#pragma once
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "core/device.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "parallel/partition.h"
#include "parallel/topology.h"
#include "parallel/trace.h"

namespace sluice::parallel {

/// How a model is trained: which nodes on which device, how many micro-batches, in which order, what is rematerialized, in which
/// numbers.
/// Stage s runs on devices[s].
struct Plan {
  std::vector<DevicePtr> devices;
  Partition partition;
  int micro_batches = 1;
  std::string schedule = "gpipe";
  std::vector<bool> rematerialize;  ///< by node
  Precision precision = Precision::f32;
};

/// What the user leaves open or fixes.
struct PlanOptions {
  int64_t batch = 1;  ///< samples a mini-batch
  int micro_batches = 1;
  std::string schedule = "1f1b";
  std::string partition = "auto";          ///< auto (exact minimum of the slowest stage), parameters, uniform, or list
  std::vector<int> sizes{};                ///< nodes a stage, for partition = "list"
  std::string remat = "none";              ///< none, full or list
  std::vector<std::string> remat_nodes{};  ///< names of nodes, for remat = "list"
  Precision precision = Precision::f32;
  int64_t memory = kUnlimited;  ///< bytes a device; unlimited leaves the devices' own budgets
};

/// The part of a graph that partitioning and lowering need.
Topology topology_of(const layers::Graph& graph);

/// Forward cost of each node for `samples` samples, counted on a meta device. Units: seconds at the device's speed.
/// Errors  UsageError when an input of the graph has no known shape.
std::vector<double> node_costs(const layers::Graph& graph, int64_t samples, const DeviceSpeed& speed, Precision precision = Precision::f32);

/// Chooses the cut and checks everything that can be checked before work: one stage a device.
/// Errors  UsageError for more stages than nodes, M > batch, an unknown name, a list that does not fit, tf32 on CUDA devices made without
///         allow_tf32; each names the cure.
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
  std::string reason;       ///< of a refusal: the OutOfMemory message
  double step_seconds = 0;  ///< on the devices' clocks
  double bubble = 0;        ///< 1 - mean busy time / step time
  double flops = 0;         ///< of one step, recomputation included
  std::vector<DevicePrediction> devices;
  Trace trace;  ///< of one step, on the devices' clocks; empty when it does not fit
};
/// `speed` drives the clocks; transfers between devices take bytes / link_bytes_per_second + link_latency.
Prediction predict(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, const DeviceSpeed& speed);

}  // namespace sluice::parallel
