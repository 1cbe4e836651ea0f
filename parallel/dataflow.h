#pragma once
#include <string>
#include <vector>

#include "parallel/partition.h"
#include "parallel/program.h"
#include "parallel/topology.h"

namespace sluice::parallel {

/// What one stage exchanges with the others for each micro-batch. Lists of the two ends of a pair of stages have one order.
struct StageFlow {
  std::vector<Transfer> activations_in;    ///< ascending value
  std::vector<Transfer> activations_out;   ///< the nearest stage first
  std::vector<Transfer> gradients_in;      ///< descending value and consumer: the order of their sum
  std::vector<Transfer> gradients_out;     ///< descending value and consumer
  std::vector<Transfer> recompute_inputs;  ///< those activations_in that a rematerialized node consumes
  bool recomputes = false;                 ///< a node of the stage is rematerialized
  bool commits_statistics = false;         ///< a node of the stage has running statistics
};

/// All that crosses stages and devices in one step, as it follows from the model and the partition, whatever the schedule.
/// In evaluation there is nothing but activations.
struct Dataflow {
  std::vector<StageFlow> stages;
  std::vector<Transfer> tied_gradients;  ///< by tied parameter, then by node
  std::vector<Transfer> tied_weights;    ///< by tied parameter, then by stage
  std::vector<Transfer> norm_parts;      ///< by device
  std::vector<Transfer> norms;           ///< by device
};

/// What a plan is made of, gathered for the checks that lowering and verification share.
struct Layout {
  const Topology& topology;
  const Partition& partition;
  const std::vector<int>& device_of_stage;
  const std::vector<bool>& rematerialize;
  int devices;
  bool training;
};

/// Why the parts of a layout do not belong together; empty when they do.
std::string mismatch(const Layout& layout);

/// Errors  none for a layout without a mismatch.
Dataflow dataflow(const Layout& layout);

/// The buffer from which the sender of an activation or gradient sends.
Buffer sent_buffer(const Transfer& transfer, int micro_batch);
/// The buffer that its receiver fills.
Buffer received_buffer(const Transfer& transfer, int micro_batch);
Buffer tape_buffer(int stage, int micro_batch);

}  // namespace sluice::parallel
