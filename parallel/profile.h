#pragma once
#include <filesystem>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "core/batch.h"
#include "core/precision.h"
#include "layers/graph.h"

namespace sluice::parallel {

/// What one node takes. Units: seconds, for one micro-batch.
struct NodeTimes {
  double forward = 0;          ///< F, recorded for a backward
  double backward = 0;         ///< B
  double input_gradient = 0;   ///< I
  double weight_gradient = 0;  ///< W
  double recompute = 0;        ///< R: F again, recorded
  double step = 0;             ///< once a mini-batch: norm and optimizer step of the parameters that the node owns
};

struct ProfileOptions {
  int repetitions = 5;
  /// Of each of the three series of passes: once they are over no further pass begins, but each kind of pass runs once at least.
  double seconds = 2;
  /// CPU devices that work at the same time, on copies of the model: they share caches and memory, and slow each other down. Taken down
  /// to the cores and the memory that are there.
  int devices = 1;
  std::filesystem::path cache{};  ///< file of earlier measurements, such as profile_cache_file(); empty = measure anew
  uint64_t seed = 1;
};

/// Measures every node on a CPU or CUDA device: the median of its repetitions, then the mean over nodes of equal work.
///
/// The whole graph runs forward and backward as in training, each node as a stage of its own, so that weights and activations are in
/// the caches or not as they will be. Then it runs as one stage, and the nodes' times are scaled to add up to that stage's: a node
/// alone pays for its own entry and exit, a node of a stage does not. The first `samples` samples of `batch` serve as every micro-batch.
/// Cost    at most 4 * repetitions + 2 micro-batches, and repetitions + 1 with recomputation, within about 3 * `seconds` where a
///         micro-batch is short; nothing when the cache knows every node. It knows them by inputs, parameters, ops, precision,
///         optimizer, device, threads and the program's file.
/// Errors  UsageError for a meta device, too few samples, an input without a known shape; ResourceError when the machine has not the
///         memory that the whole model takes.
std::vector<NodeTimes> profile_nodes(const layers::Graph& graph, const Batch& batch, int64_t samples, const DevicePtr& device,
                                     Precision precision, const Optimizer& optimizer, const ProfileOptions& options = {});

/// The same, counted on a meta device: each op takes the larger of its arithmetic and its traffic at `speed`.
/// `backend` is the kind of device whose scratch memory is reckoned with.
std::vector<NodeTimes> counted_nodes(const layers::Graph& graph, int64_t samples, const DeviceSpeed& speed, Precision precision,
                                     const Optimizer& optimizer, DeviceKind backend = DeviceKind::cpu);

/// node-times.json in the user's cache folder; empty where there is none.
std::filesystem::path profile_cache_file();

}  // namespace sluice::parallel
