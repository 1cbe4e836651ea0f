#pragma once
#include <cstdint>
#include <vector>

#include "parallel/program/links.h"
#include "parallel/program/partition.h"
#include "parallel/program/schedule.h"
#include "parallel/program/topology.h"

namespace sluice::parallel {

/// What one node takes for one micro-batch. Units: seconds and bytes, as the device counts them.
struct NodeCost {
  double forward = 0;          ///< F
  double backward = 0;         ///< B, in one pass
  double input_gradient = 0;   ///< I
  double weight_gradient = 0;  ///< W
  double recompute = 0;        ///< R
  double step = 0;             ///< the optimizer, once a mini-batch
  double copy = 0;             ///< of what it makes, once on each way to another stage, and of its gradient at both ends of its way back

  int64_t state_bytes = 0;            ///< parameters, their gradients and optimizer states, and running statistics
  int64_t gradient_bytes = 0;         ///< of these: gradients, each there from the first backward of a step on
  int64_t sharded_bytes = 0;          ///< of these: what the optimizer alone has, of which replicas may have a part each
  int64_t output_bytes = 0;           ///< the value that it makes, as a device charges it
  int64_t wire_bytes = 0;             ///< the same on its way to another device, and of its gradient
  int64_t tape_bytes = 0;             ///< kept from F to B, beside its inputs and its output
  bool keeps_output = false;          ///< its own tape holds the value that it makes
  std::vector<bool> keeps_input{};    ///< its tape holds this input; by position in Topology::Node::inputs
  int64_t deferred_bytes = 0;         ///< kept from I to W
  int64_t forward_peak_bytes = 0;     ///< live during a recorded F, beside its inputs; its tape and output included
  int64_t bare_forward_bytes = 0;     ///< the same when nothing is recorded: the first pass over a rematerialized node
  int64_t backward_peak_bytes = 0;    ///< live during B or I, beside what F kept and the gradient that comes in
  int64_t weight_gradient_bytes = 0;  ///< live during W, beside what I kept
};

/// How much longer a device takes for its actions when it holds more than its caches do: `most` of their time from twice the bytes on at
/// which the times of the nodes were measured, less between.
struct Crowding {
  double most = 0;
  int64_t bytes = 0;
  double factor(int64_t held) const;
};

/// What is on every device once that runs one of the nodes: a table of positions, or what forward reads of a frozen parameter.
struct SharedCost {
  int64_t bytes = 0;
  std::vector<int> nodes;  ///< that read it, ascending
};

/// A model as the search sees it, for one size of a micro-batch.
struct ModelCost {
  std::vector<NodeCost> nodes;
  std::vector<int64_t> input_bytes;  ///< by input of the graph
  std::vector<int64_t> tied_bytes;   ///< by tied parameter: one more copy on a stage that does not own it
  int64_t own_bytes = 0;             ///< of a device, whatever runs there: its libraries' workspace. In no cost of nodes and stages
  Crowding crowding{};
  std::vector<SharedCost> shared{};
  NormBytes norm{};
  std::vector<TiedBytes> tied_wire{};  ///< by tied parameter
};

/// A model on the devices of a plan, which may be of several kinds: each kind has times and bytes of its own.
struct ModelCosts {
  std::vector<ModelCost> kinds;
  std::vector<int> kind_of_device{};  ///< by device; empty: all are of the first kind

  const ModelCost& on(int device) const { return kinds[kind_of_device.empty() ? 0 : kind_of_device[device]]; }
  /// For what is the same on all: the bytes of values.
  const ModelCost& any() const { return kinds.front(); }
};

/// What a stage takes for one micro-batch.
struct StageCost {
  double forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0, recompute = 0, step = 0;  ///< seconds

  int64_t state_bytes = 0;            ///< live all the time, gradients from the first B or W on
  int64_t gradient_bytes = 0;         ///< of these
  int64_t kept_bytes = 0;             ///< from F to its B or I, a micro-batch
  int64_t recomputed_bytes = 0;       ///< live beside that from R to B or I
  int64_t deferred_bytes = 0;         ///< from I to W, a micro-batch
  int64_t forward_peak_bytes = 0;     ///< during F, beside all that is kept of other micro-batches
  int64_t recompute_peak_bytes = 0;   ///< during R, beside kept_bytes of its micro-batch
  int64_t backward_peak_bytes = 0;    ///< during B, beside kept_bytes and recomputed_bytes of its micro-batch
  int64_t input_gradient_bytes = 0;   ///< the same during I, with what its W needs
  int64_t weight_gradient_bytes = 0;  ///< during W, beside deferred_bytes

  int64_t first_backward_peak_bytes = 0;    ///< as backward_peak_bytes, of the first B of a step, with the gradients that it makes
  int64_t first_weight_gradient_bytes = 0;  ///< as weight_gradient_bytes, of the first W
};

/// Adds up the nodes [first, end) as a stage that rematerializes the marked ones (one entry a node of the model).
/// It follows what the stage does with its values; memory that two tapes share counts once where it is a value of the graph.
StageCost stage_cost(const Topology& topology, const ModelCost& model, int first, int end, const std::vector<bool>& rematerialize);

/// All stages of a partition, each on its device.
std::vector<StageCost> stage_costs(const Topology& topology, const ModelCosts& costs, const Partition& partition,
                                   const std::vector<int>& device_of_stage, const std::vector<bool>& rematerialize);

/// The most bytes that are live on a device when it works through its list; the order of the list alone decides, no clock.
/// Close to what the executor counts on meta devices, which is exact.
int64_t device_peak_bytes(const Schedule& schedule, const std::vector<StageCost>& stages, int device);

/// The most micro-batches of each stage that wait between their F and their B or I, and between I and W.
struct InFlight {
  std::vector<int> forwards, deferred;  ///< by stage
};
InFlight micro_batches_in_flight(const Schedule& schedule);

}  // namespace sluice::parallel
