#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "parallel/program/partition.h"
#include "parallel/program/replication.h"
#include "parallel/program/schedule.h"
#include "parallel/program/topology.h"

namespace sluice::parallel {

enum class ActionKind {
  forward,            ///< F: run the stage's nodes for one micro-batch
  backward,           ///< B = I + W
  input_gradient,     ///< I
  weight_gradient,    ///< W
  recompute,          ///< R: run the rematerialized nodes of the stage again, before its backward
  recv_post,          ///< the receiver has a place for a transfer between devices from now on
  send,               ///< the transfer may begin; what is sent stays until its send_wait
  recv,               ///< waits until the transfer is done
  send_wait,          ///< waits until the transfer is done: what was sent is the sender's again
  gradient_norm,      ///< per-parameter sums of squares of this device's gradients, into a norm part
  reduce_norm,        ///< on the device of stage 0: all norm parts, summed in parameter order -> the global norm
  reduce_tied,        ///< add the uses of one tied parameter in node order, on the owner's stage
  shard_gradients,    ///< of several replicas: the stage's gradients, which are complete, become a shard for each replica
  fold_shards,        ///< the shards that the replicas made for this one become its part of the mini-batch's gradient
  commit_statistics,  ///< the stage's running statistics (BatchNorm), once a mini-batch, after the norm: one that is not finite changes none
  step,               ///< the optimizer, on every parameter that the device owns
};

/// What a transfer carries.
enum class Payload {
  none,
  activation,      ///< value `value` of one micro-batch, from the producing stage to a consuming stage
  gradient,        ///< a contribution to the gradient of `value`, from a consuming stage back to the producing stage
  tied_gradient,   ///< the mini-batch gradient of tied parameter `value` (index into Topology::tied) made by node `consumer`
  tied_weight,     ///< the updated tied parameter `value`, from its owner to the stage of node `consumer`
  norm_part,       ///< the sender device's sums of squares
  norm,            ///< the global gradient norm
  gradient_shard,  ///< between the replicas of a stage: of the sender's gradients those that the receiver adds up
  gradient_sum,    ///< between the replicas of a stage: what the sender added up, where every replica runs the optimizer on all parameters
  weight_shard,    ///< between the replicas of a stage: the updated weights that the sender owns
  statistics,      ///< between the replicas of a stage: what the sender's micro-batches saw of its running statistics
};

/// Names one buffer that crosses stages; the two ends of a transfer have the equal key. Which there are is Dataflow's to say.
struct Transfer {
  Payload payload = Payload::none;
  int value = -1;     ///< value id, or index of the tied parameter
  int consumer = -1;  ///< gradient, tied: the consuming node; activation: -1
  int from = -1;      ///< stage, numbered through the replicas; devices for norm_part and norm
  int to = -1;        ///< the same
  bool of_micro_batch() const { return payload == Payload::activation || payload == Payload::gradient; }
  /// What is sent and what arrives are Buffers: sent_buffer and received_buffer name them.
  bool has_buffers() const { return of_micro_batch() || payload == Payload::gradient_shard; }
  bool between_devices() const { return payload == Payload::norm_part || payload == Payload::norm; }
  bool operator==(const Transfer&) const = default;
  auto operator<=>(const Transfer&) const = default;
};

/// Something that lives on a device between actions, named so that its life is explicit in the program.
struct Buffer {
  enum class Kind {
    value,     ///< a value that arrived by Recv, or that the stage made and must still send (or recompute from)
    tape,      ///< all that the stage's forward saved for its backward
    gradient,  ///< a contribution that arrived by Recv, or that the stage made and must still send
    shard,     ///< of the gradients of stage `value`, for its replica `consumer`; of the whole mini-batch
  };
  Kind kind;
  int stage;
  int micro_batch;
  int value = -1;     ///< value id; -1 for a tape; for a shard: the stage that made it
  int consumer = -1;  ///< for a gradient: the consuming node; for a shard: the stage that adds it up
  bool operator==(const Buffer&) const = default;
  auto operator<=>(const Buffer&) const = default;
};

struct Action {
  ActionKind kind;
  int stage = -1;             ///< through the replicas; -1 for actions of a whole device: gradient_norm, reduce_norm, step, norm transfers
  int micro_batch = -1;       ///< -1 for actions of the whole mini-batch
  Transfer transfer;          ///< of the four actions of a transfer; for reduce_tied `value` is the tied parameter
  std::vector<Buffer> frees;  ///< freed right after this action
  /// @name What a counting run writes down, in bytes (CountingExecutor); 0 until then
  /// @{
  int64_t bytes = 0;       ///< send, recv: what is on the wire
  int64_t peak_bytes = 0;  ///< the most that the device holds while the action runs
  int64_t live_bytes = 0;  ///< what the device holds after the action and what it frees
  /// @}

  /// One of the four actions that a transfer is made of; all others compute.
  bool is_transfer() const;
  /// The end of a step goes through phases 1, 2, ... on every device, in this order: sums over replicas, sums of tied gradients, sums for all
  /// replicas, the norm in four, statistics, the step, weights. Work on micro-batches, and what leaves at its end, is phase 0.
  int phase() const;
  bool operator==(const Action&) const = default;
};

/// A step of training (or of evaluation) as data: for each device the exact list of actions, in order.
struct Program {
  std::string schedule;
  Partition partition;  ///< of the model: the stages of one replica
  Replication replication;
  int micro_batches = 0;  ///< of all replicas
  bool training = true;
  std::vector<int> device_of_stage;          ///< of all replicas' stages
  std::vector<bool> rematerialize;           ///< by node
  std::vector<std::vector<Action>> devices;  ///< by device
  bool is_counted = false;                   ///< the actions have their bytes, those of one shape of a mini-batch

  /// Of all replicas.
  int stage_count() const { return static_cast<int>(device_of_stage.size()); }
  int device_count() const { return static_cast<int>(devices.size()); }
  MicroBatchRange micro_batches_of(int stage) const {
    return part_of(micro_batches, stage / partition.stage_count(), replication.replicas);
  }
  /// The device of a transfer's end.
  int sender(const Transfer& transfer) const { return transfer.between_devices() ? transfer.from : device_of_stage[transfer.from]; }
  int receiver(const Transfer& transfer) const { return transfer.between_devices() ? transfer.to : device_of_stage[transfer.to]; }
  bool operator==(const Program&) const = default;
};

/// How far transfers between devices run ahead of the work that needs them and behind the work that made them. More of either hides longer
/// transfers and uneven work, and takes memory; 0 and 0 take the least.
struct TransferWindow {
  int ahead = 1;   ///< a receive is posted so many compute actions before the one in which its receiver is when it is sent
  int behind = 1;  ///< the sender waits for the end of a transfer so many compute actions after it began
  bool operator==(const TransferWindow&) const = default;
};

/// Holds no transfer up: all receives are posted at the beginning. What the times of time_schedule assume.
inline constexpr TransferWindow kOpenWindow{1 << 20, 1 << 20};

/// Turns a schedule into a program with explicit transfers, recomputation, buffer lives and the step at the end.
///
/// A value goes directly from its producing stage to each consuming stage, once a stage and micro-batch. Inputs of the graph are never
/// sent: each stage that consumes one loads it. Recompute stands before the Recv of the gradients, so that it overlaps their arrival.
/// `forward-only` schedules give a program without recomputation, gradients and step.
/// A transfer between two stages of one device is a Send and, directly behind it, its Recv: nothing waits. One between two devices has a
/// RecvPost and a SendWait, too. Where they stand follows from one order of the whole group, in which every action has behind it all that it
/// waits for (channels.cpp): so no circle of waits can arise, even when each channel carries one transfer at a time.
/// `rematerialize` has one entry a node (all false: keep every activation). The program is not counted yet.
/// `schedule` is that of all replicas, as `replicated` makes it. A stage's gradients leave for the replicas that add them up directly after its
/// last backward, and are waited for at the end of the device's work on micro-batches.
/// Errors  UsageError when partition, schedule, replication and topology do not belong together, or the window is negative.
Program lower(const Topology& topology, const Partition& partition, const Schedule& schedule, const std::vector<bool>& rematerialize,
              const TransferWindow& window = {}, const Replication& replication = {});

/// "B(stage 1, micro-batch 3)", "Send activation 'block0' of micro-batch 2 from stage 0 to stage 1", ...: for errors, traces and tests.
std::string describe(const Action& action, const Topology& topology);

/// A hash of numbers that name something in a program, for hash maps.
std::size_t hash_numbers(std::initializer_list<int> numbers);
std::size_t hash_of(const Transfer& transfer, int micro_batch);

/// What a transfer carries, without its ends: "activation 'block0'", "gradient of 'block0' at 'block3'", "norm part".
std::string describe_payload(const Transfer& transfer, const Topology& topology);

}  // namespace sluice::parallel
