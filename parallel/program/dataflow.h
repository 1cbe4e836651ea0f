#pragma once
#include <string>
#include <vector>

#include "parallel/program/partition.h"
#include "parallel/program/program.h"
#include "parallel/program/topology.h"

namespace sluice::parallel {

/// One node's part in the gradient of one of its inputs.
struct Contribution {
  int value;
  int consumer;  ///< under which it goes to the stage that makes the value, added to what is there under that name; -1: it is that stage's own
};

/// What training does with one node, as far as that depends on more than the node.
struct NodeFlow {
  bool recorded = false;                    ///< its value has a gradient: it has a tape, and the backward comes to it
  bool recomputed = false;                  ///< R runs it again
  bool sent = false;                        ///< another stage reads its value
  std::vector<Contribution> contributions;  ///< descending value
};

/// What one stage exchanges with the others for each micro-batch. Lists of the two ends of a pair of stages have one order.
struct StageFlow {
  std::vector<Transfer> activations_in;    ///< ascending value
  std::vector<Transfer> activations_out;   ///< the nearest stage first
  std::vector<Transfer> gradients_in;      ///< descending value and consumer: the order of their sum
  std::vector<Transfer> gradients_out;     ///< descending value and consumer
  std::vector<Transfer> recompute_inputs;  ///< those activations_in that a recomputed node consumes
  std::vector<Transfer> shards_in;         ///< gradient shards: of the replica before this one, then of the one before that, ...
  std::vector<Transfer> shards_out;        ///< to the next replica first
  std::vector<Transfer> statistics_in;     ///< of the other replicas, in the order of shards_in
  std::vector<Transfer> statistics_out;    ///< in the order of shards_out
  bool recomputes = false;                 ///< a node of the stage is recomputed
  bool commits_statistics = false;         ///< a node of the stage has running statistics
};

/// All that crosses stages and devices in one step, as it follows from the model and the partition, whatever the schedule: which value,
/// whose contributions, who adds them up and under which name they travel. It is decided here alone: `lower` writes it down, `verify`
/// holds programs to it, and stages do it.
/// In evaluation there is nothing but activations.
///
/// Order of sums: the gradient of a value is the left fold of its consumers' contributions in descending node order, whatever the
/// partition. Therefore the last contributing stage (the highest) sends one sum (its consumers are a prefix of that order) under the
/// lowest of its contributing nodes; any other contributing stage sends each contribution by itself.
///
/// Of several replicas, every one sends each other one its shard of each stage's gradients, which that one adds up, and gets what became of
/// it: the new weights, or the sum. Tied parameters are added up use by use over the replicas before the uses are added, so each use goes
/// from every replica to every replica.
struct Dataflow {
  std::vector<StageFlow> stages;  ///< of all replicas
  std::vector<NodeFlow> nodes;
  std::vector<std::vector<int>> tied_uses;  ///< by tied parameter: the nodes that make a gradient of it, ascending
  std::vector<Transfer> tied_gradients;     ///< by tied parameter, then by node
  std::vector<Transfer> tied_weights;       ///< by tied parameter, then by stage
  std::vector<Transfer> gradient_sums;      ///< by stage
  std::vector<Transfer> weight_shards;      ///< by stage
  std::vector<Transfer> norm_parts;         ///< by device
  std::vector<Transfer> norms;              ///< by device
};

/// What a plan is made of, gathered for the checks that lowering and verification share.
struct Layout {
  const Topology& topology;
  const Partition& partition;
  const std::vector<int>& device_of_stage;  ///< of all replicas' stages
  const std::vector<bool>& rematerialize;
  int devices;
  bool training;
  Replication replication{};

  /// By number through the replicas.
  int stage_of(int node, int replica) const { return replica * partition.stage_count() + partition.stage_of(node); }
};

/// Why the parts of a layout do not belong together; empty when they do.
std::string mismatch(const Layout& layout);

/// Errors  none for a layout without a mismatch.
Dataflow dataflow(const Layout& layout);

/// By node of [first, end), a stage: whether R runs it again. Of the rematerialized nodes these are the ones with a gradient, whose tape is
/// missing, and those whose values such nodes read.
std::vector<bool> recomputed_nodes(const Topology& topology, const std::vector<bool>& rematerialize, int first, int end);

/// The buffer from which the sender sends, of a transfer that has_buffers().
Buffer sent_buffer(const Transfer& transfer, int micro_batch);
/// The buffer that its receiver fills.
Buffer received_buffer(const Transfer& transfer, int micro_batch);
Buffer tape_buffer(int stage, int micro_batch);
/// Held by the stage that made it, or the one that it was made for.
Buffer shard_buffer(int holder, int from, int to);
/// What fold_shards of a stage adds up.
std::vector<Buffer> folded_buffers(const StageFlow& flow, int stage);

}  // namespace sluice::parallel
