#pragma once
#include <array>
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "core/batch.h"
#include "core/cuda/tuned.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "parallel/plan/search_watch.h"

namespace sluice::parallel {

/// What one node takes. Units: seconds, for one micro-batch.
struct NodeTimes {
  double forward = 0;          ///< F, recorded for a backward
  double backward = 0;         ///< B
  double input_gradient = 0;   ///< I
  double weight_gradient = 0;  ///< W
  double recompute = 0;        ///< R: F again, recorded
  double step = 0;             ///< once a mini-batch: norm and optimizer step of the parameters that the node owns
  double copy = 0;             ///< of what it makes into the form in which that goes to another stage; 0 where it has it, and measured
  double crowding = 0;         ///< fraction that its actions take longer on a device that holds twice `crowding_bytes` or more (Crowding)
  double crowding_bytes = 0;   ///< of a device when the times were measured
};

/// All of them, for what treats them alike.
inline constexpr std::array kNodeTimes{
    &NodeTimes::forward, &NodeTimes::backward, &NodeTimes::input_gradient, &NodeTimes::weight_gradient, &NodeTimes::recompute,
    &NodeTimes::step,    &NodeTimes::copy,     &NodeTimes::crowding,       &NodeTimes::crowding_bytes};
static_assert(kNodeTimes.size() * sizeof(double) == sizeof(NodeTimes));

struct ProfileOptions {
  int repetitions = 50;  ///< of every action, as far as the time allows
  double seconds = 2;    ///< of each of the eight runs of the model: once they are over no further step begins, after the second one
  /// CPU devices that work at the same time, each on its part of the model: they share caches and memory, and slow each other down. Taken
  /// down to the cores and nodes that are there.
  int devices = 1;
  Tuning tuning = Tuning::quick;  ///< that of the training: its GPUs go on with the algorithms that are chosen here
  std::string cache{};            ///< file of earlier measurements, such as profile_cache_file(); empty = measure anew
  uint64_t seed = 1;
};

/// Measures every node on a CPU or CUDA device: the median of its repetitions, then the mean over nodes of equal work.
///
/// The executor trains the model as pipelines over the devices: with 1f1b and with zb-h1, each node a stage of its own and each device's
/// nodes one stage, with and without rematerialization. So caches, waits and hand-overs are those of training. A device's nodes are scaled
/// to add up to what they take as one stage: a node alone pays for its own entry and exit. At last gpipe keeps up to 32 micro-batches, as
/// many as time and memory allow, which shows how much longer actions take in more memory than the caches hold. The first `samples`
/// samples of `batch` serve as every micro-batch.
/// Cost    two steps or more of max(4, 2 devices) micro-batches, eight times, within about 8 * `seconds` where a micro-batch is short;
///         nothing when the cache knows every node, and the model for how more memory slows it down. It knows them by inputs, parameters, ops, precision, optimizer, device, threads,
///         a GPU's driver, libraries and tuning, and the program's file.
/// Errors  UsageError for a meta device, too few samples, an input without a known shape; ResourceError when the machine has not the
///         memory that the whole model takes.
std::vector<NodeTimes> profile_nodes(const layers::Graph& graph, const Batch& batch, int64_t samples, const DevicePtr& device,
                                     Precision precision, const Optimizer& optimizer, const ProfileOptions& options = {});

/// The same, counted on a meta device: each op takes the larger of its arithmetic and its traffic at `speed`.
/// `backend` is the kind of device whose scratch memory is counted. Backwards have the sum of gradients over `micro_batches`, a part each.
std::vector<NodeTimes> counted_nodes(const layers::Graph& graph, int64_t samples, const DeviceSpeed& speed, Precision precision,
                                     const Optimizer& optimizer, DeviceKind backend = DeviceKind::cpu, SearchWatch* watch = nullptr,
                                     int micro_batches = 1);

/// node-times.json in the user's cache folder; empty where there is none.
std::string profile_cache_file();

}  // namespace sluice::parallel
