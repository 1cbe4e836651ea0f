#include <algorithm>

#include "core/error.h"
#include "parallel/program/channels.h"
#include "parallel/program/dataflow.h"
#include "parallel/program/program.h"

namespace sluice::parallel {

namespace {

bool is_training(const Schedule& schedule) {
  for (const auto& order : schedule.devices)
    for (const auto& action : order)
      if (action.kind != Compute::forward) return true;
  return false;
}

void require_in_range(const Schedule& schedule) {
  require(schedule.micro_batches >= 1, "lower: needs at least one micro-batch, got ", schedule.micro_batches);
  for (int device = 0; device < schedule.device_count(); ++device)
    for (const auto& action : schedule.devices[device]) {
      require(action.stage >= 0 && action.stage < schedule.stage_count() && schedule.device_of_stage[action.stage] == device,
              "lower: device ", device, " may only run its own stages, got stage ", action.stage, "; fix the schedule");
      require(action.micro_batch >= 0 && action.micro_batch < schedule.micro_batches, "lower: micro-batches run from 0 to ",
              schedule.micro_batches - 1, ", got ", action.micro_batch, " on device ", device, "; fix the schedule");
    }
}

/// Appends to the devices' lists, one compute action or one transfer at a time.
class Lowering {
 public:
  Lowering(const Layout& layout, const Schedule& schedule) : flow_(dataflow(layout)), tied_(layout.topology.tied) {
    program_ = {schedule.name,   layout.partition,         layout.replication,   schedule.micro_batches,
                layout.training, schedule.device_of_stage, layout.rematerialize, std::vector<std::vector<Action>>(layout.devices)};
    for (int stage = 0; stage < program_.stage_count(); ++stage) backwards_left_.push_back(program_.micro_batches_of(stage).count());
  }

  void compute(const ComputeAction& action) {
    switch (action.kind) {
      case Compute::forward:
        return forward(action.stage, action.micro_batch);
      case Compute::backward:
        backward(ActionKind::backward, action.stage, action.micro_batch);
        return end_backward(action.stage);
      case Compute::input_gradient:
        return backward(ActionKind::input_gradient, action.stage, action.micro_batch);
      case Compute::weight_gradient:
        emit({ActionKind::weight_gradient, action.stage, action.micro_batch, {}, {tape_buffer(action.stage, action.micro_batch)}});
        return end_backward(action.stage);
    }
  }

  void finish_step() {
    for (int stage = 0; stage < program_.stage_count(); ++stage) fold_shards(stage);
    between_stages(flow_.tied_gradients);
    for (std::size_t i = 0; i < tied_.size(); ++i)
      for (int stage = program_.partition.stage_of(tied_[i].nodes.front()); stage < program_.stage_count();
           stage += program_.partition.stage_count())
        emit({ActionKind::reduce_tied, stage, -1, {.value = static_cast<int>(i)}, {}});
    between_stages(flow_.gradient_sums);
    on_every_device(ActionKind::gradient_norm);
    for (const Transfer& transfer : flow_.norm_parts) between_devices(transfer);
    emit_on(program_.device_of_stage[0], {ActionKind::reduce_norm, -1, -1, {}, {}});
    for (const Transfer& transfer : flow_.norms) between_devices(transfer);
    for (int stage = 0; stage < program_.stage_count(); ++stage)
      if (flow_.stages[stage].commits_statistics) emit({ActionKind::commit_statistics, stage, -1, {}, {}});
    on_every_device(ActionKind::step);
    between_stages(flow_.tied_weights);
    between_stages(flow_.weight_shards);
  }

  Program take() { return std::move(program_); }

 private:
  void forward(int stage, int micro_batch) {
    const StageFlow& flow = flow_.stages[stage];
    Action action{ActionKind::forward, stage, micro_batch, {}, {}};
    for (const Transfer& transfer : flow.activations_in) {
      if (!is_local(transfer)) receive(transfer, micro_batch);
      const auto& kept = flow.recompute_inputs;
      if (std::find(kept.begin(), kept.end(), transfer) == kept.end()) action.frees.push_back(received_buffer(transfer, micro_batch));
    }
    emit(std::move(action));
    for (auto transfer = flow.activations_out.begin(); transfer != flow.activations_out.end(); ++transfer) {
      send(*transfer, micro_batch, is_last(flow.activations_out, *transfer));
    }
  }

  void backward(ActionKind kind, int stage, int micro_batch) {
    const StageFlow& flow = flow_.stages[stage];
    if (flow.recomputes) recompute(stage, micro_batch);
    Action action{kind, stage, micro_batch, {}, {}};
    for (const Transfer& transfer : flow.gradients_in) {
      if (!is_local(transfer)) receive(transfer, micro_batch);
      action.frees.push_back(received_buffer(transfer, micro_batch));
    }
    if (kind == ActionKind::backward) action.frees.push_back(tape_buffer(stage, micro_batch));
    emit(std::move(action));
    for (const Transfer& transfer : flow.gradients_out) send(transfer, micro_batch, true);
  }

  void recompute(int stage, int micro_batch) {
    Action action{ActionKind::recompute, stage, micro_batch, {}, {}};
    for (const Transfer& transfer : flow_.stages[stage].recompute_inputs) action.frees.push_back(received_buffer(transfer, micro_batch));
    emit(std::move(action));
  }

  void end_backward(int stage) {
    if (--backwards_left_[stage] == 0) share(stage);
  }

  /// With other replicas, what they wait for of a stage that has done its work on micro-batches.
  void share(int stage) {
    const StageFlow& flow = flow_.stages[stage];
    if (flow.shards_out.empty()) return;
    emit({ActionKind::shard_gradients, stage, -1, {}, {}});
    for (const Transfer& transfer : flow.shards_out) send(transfer, -1, true);
    for (const Transfer& transfer : flow.statistics_out) send(transfer, -1, false);
  }

  void fold_shards(int stage) {
    const StageFlow& flow = flow_.stages[stage];
    if (flow.shards_in.empty()) return;
    for (const auto* transfers : {&flow.shards_in, &flow.statistics_in})
      for (const Transfer& transfer : *transfers)
        if (!is_local(transfer)) receive(transfer, -1);
    emit({ActionKind::fold_shards, stage, -1, {}, folded_buffers(flow, stage)});
  }

  bool is_local(const Transfer& transfer) const { return program_.sender(transfer) == program_.receiver(transfer); }

  /// Of the transfers of its value the one that ends last: those within the device are done at once.
  bool is_last(const std::vector<Transfer>& transfers, const Transfer& transfer) const {
    const Transfer* last = nullptr;
    for (const Transfer& other : transfers)
      if (other.value == transfer.value && (!last || !is_local(other) || is_local(*last))) last = &other;
    return *last == transfer;
  }

  /// A stage of the same device receives at once, so that what is handed over has a holder all the time.
  void send(const Transfer& transfer, int micro_batch, bool frees) {
    Action action{ActionKind::send, transfer.from, micro_batch, transfer, {}};
    if (frees) action.frees.push_back(sent_buffer(transfer, micro_batch));
    emit(std::move(action));
    if (is_local(transfer)) receive(transfer, micro_batch);
  }

  void receive(const Transfer& transfer, int micro_batch) { emit({ActionKind::recv, transfer.to, micro_batch, transfer, {}}); }

  /// All are under way before one is waited for.
  void between_stages(const std::vector<Transfer>& transfers) {
    for (const Transfer& transfer : transfers) send(transfer, -1, false);
    for (const Transfer& transfer : transfers)
      if (!is_local(transfer)) receive(transfer, -1);
  }

  void between_devices(const Transfer& transfer) {
    emit_on(transfer.from, {ActionKind::send, -1, -1, transfer, {}});
    emit_on(transfer.to, {ActionKind::recv, -1, -1, transfer, {}});
  }

  void on_every_device(ActionKind kind) {
    for (int device = 0; device < program_.device_count(); ++device) emit_on(device, {kind, -1, -1, {}, {}});
  }

  void emit(Action action) { emit_on(program_.device_of_stage[action.stage], std::move(action)); }

  void emit_on(int device, Action action) { program_.devices[device].push_back(std::move(action)); }

  const Dataflow flow_;
  const std::vector<Topology::Tied>& tied_;
  Program program_;
  std::vector<int> backwards_left_;  // by stage: those that complete gradients of weights
};

}  // namespace

Program lower(const Topology& topology, const Partition& partition, const Schedule& schedule, const std::vector<bool>& rematerialize,
              const TransferWindow& window, const Replication& replication) {
  const Layout layout{topology,   partition, schedule.device_of_stage, rematerialize, schedule.device_count(), is_training(schedule),
                      replication};
  const std::string fault = mismatch(layout);
  require(fault.empty(), "lower: model, partition and schedule must belong together, but ", fault, "; make them for one model");
  require_in_range(schedule);
  require(!layout.training || schedule.micro_batches >= replication.replicas, "lower: needs at least one micro-batch for each of the ",
          replication.replicas, " replicas, got ", schedule.micro_batches, "; train in more micro-batches, or with fewer replicas");
  require(window.ahead >= 0 && window.behind >= 0, "lower: transfers need to be 0 or more actions ahead and behind, got ", window.ahead,
          " and ", window.behind, "; 0 takes the least memory");

  Lowering lowering(layout, schedule);
  for (const auto& order : schedule.devices)
    for (const auto& action : order) lowering.compute(action);
  if (layout.training) lowering.finish_step();
  return with_channel_actions(lowering.take(), window);
}

}  // namespace sluice::parallel
