#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "parallel/program/verify_rules.h"

namespace sluice::parallel {

namespace {

/// The rule that an action of this kind breaks when it is missing, misplaced or one too many.
std::string_view rule_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "each stage runs F of every micro-batch exactly once, on its device";
    case ActionKind::backward:
    case ActionKind::input_gradient:
    case ActionKind::weight_gradient:
      return "in training each stage runs B, or I and W, of every micro-batch exactly once, on its device";
    case ActionKind::recompute:
      return "in training a stage with a rematerialized node, and no other, runs R of every micro-batch exactly once, on its device";
    case ActionKind::send:
    case ActionKind::recv:
      return "what one end makes and the other needs has exactly one Send and one Recv, each on the device of its end";
    case ActionKind::recv_post:
      return "a transfer between devices, and no other, is posted exactly once, on the device that receives it";
    case ActionKind::send_wait:
      return "a transfer between devices, and no other, has exactly one end of its Send, on the device that sends it";
    case ActionKind::reduce_tied:
      return "in training each tied parameter is reduced exactly once a step, on its owner's device, of every replica";
    case ActionKind::shard_gradients:
    case ActionKind::fold_shards:
      return "in training each stage of several replicas makes its shards and adds its own ones up exactly once a step, on its device";
    case ActionKind::gradient_norm:
    case ActionKind::step:
      return "in training each device takes its norm and its step exactly once";
    case ActionKind::reduce_norm:
      return "in training the norm is reduced exactly once, on the device of stage 0";
    case ActionKind::commit_statistics:
      return "in training a stage with running statistics, and no other, commits them exactly once a step, on its device";
  }
  return {};
}

using Key = std::tuple<int, ActionKind, int, int, Transfer>;  // device, kind, stage, micro-batch, transfer

Key key_of(int device, const Action& action) { return {device, action.kind, action.stage, action.micro_batch, action.transfer}; }

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const auto& [device, kind, stage, micro_batch, transfer] = key;
    return hash_numbers({device, static_cast<int>(kind), stage, micro_batch, static_cast<int>(transfer.payload), transfer.value,
                         transfer.consumer, transfer.from, transfer.to});
  }
};

/// All actions that a right program has, without their order.
class ExpectedActions {
 public:
  explicit ExpectedActions(const Trial& trial) : program_(trial.program), flow_(trial.flow), keys_(trial.program.devices.size()) {
    const auto split = split_backwards();
    for (int stage = 0; stage < program_.stage_count(); ++stage)
      for (int m = program_.micro_batches_of(stage).first; m < program_.micro_batches_of(stage).end; ++m)
        add_micro_batch(stage, m, split[place(stage, m)]);
    if (program_.training) add_step(trial.topology);
  }

  /// By device.
  std::vector<std::vector<Key>> take() { return std::move(keys_); }

 private:
  void add(const Key& key) { keys_[std::get<0>(key)].push_back(key); }

  std::size_t place(int stage, int micro_batch) const { return static_cast<std::size_t>(stage) * program_.micro_batches + micro_batch; }

  /// By place: whether the program has I or W there. The numbers of a damaged action may name no place.
  std::vector<bool> split_backwards() const {
    std::vector<bool> split(place(program_.stage_count(), 0), false);
    for (const auto& actions : program_.devices)
      for (const Action& action : actions) {
        if (action.kind != ActionKind::input_gradient && action.kind != ActionKind::weight_gradient) continue;
        const bool is_stage = action.stage >= 0 && action.stage < program_.stage_count();
        if (is_stage && action.micro_batch >= 0 && action.micro_batch < program_.micro_batches)
          split[place(action.stage, action.micro_batch)] = true;
      }
    return split;
  }

  void add_micro_batch(int stage, int micro_batch, bool split) {
    const StageFlow& flow = flow_.stages[stage];
    const auto add = [&](ActionKind kind) { this->add({program_.device_of_stage[stage], kind, stage, micro_batch, {}}); };
    add(ActionKind::forward);
    for (const Transfer& transfer : flow.activations_out) add_transfer(transfer, micro_batch);
    if (!program_.training) return;
    if (flow.recomputes) add(ActionKind::recompute);
    add(split ? ActionKind::input_gradient : ActionKind::backward);
    if (split) add(ActionKind::weight_gradient);
    for (const Transfer& transfer : flow.gradients_out) add_transfer(transfer, micro_batch);
  }

  void add_step(const Topology& topology) {
    for (const Transfer& transfer : flow_.tied_gradients) add_transfer(transfer, -1);
    for (std::size_t i = 0; i < topology.tied.size(); ++i)
      for (int owner = program_.partition.stage_of(topology.tied[i].nodes.front()); owner < program_.stage_count();
           owner += program_.partition.stage_count())
        add({program_.device_of_stage[owner], ActionKind::reduce_tied, owner, -1, {.value = static_cast<int>(i)}});
    for (const Transfer& transfer : flow_.gradient_sums) add_transfer(transfer, -1);
    for (const Transfer& transfer : flow_.norm_parts) add_transfer(transfer, -1);
    for (const Transfer& transfer : flow_.norms) add_transfer(transfer, -1);
    for (int device = 0; device < program_.device_count(); ++device) {
      add({device, ActionKind::gradient_norm, -1, -1, {}});
      add({device, ActionKind::step, -1, -1, {}});
    }
    add({program_.device_of_stage[0], ActionKind::reduce_norm, -1, -1, {}});
    for (int stage = 0; stage < program_.stage_count(); ++stage) add_end(stage);
    for (const Transfer& transfer : flow_.tied_weights) add_transfer(transfer, -1);
    for (const Transfer& transfer : flow_.weight_shards) add_transfer(transfer, -1);
  }

  void add_end(int stage) {
    const StageFlow& flow = flow_.stages[stage];
    const auto add = [&](ActionKind kind) { this->add({program_.device_of_stage[stage], kind, stage, -1, {}}); };
    for (const Transfer& transfer : flow.shards_out) add_transfer(transfer, -1);
    for (const Transfer& transfer : flow.statistics_out) add_transfer(transfer, -1);
    if (!flow.shards_out.empty()) {
      add(ActionKind::shard_gradients);
      add(ActionKind::fold_shards);
    }
    if (flow.commits_statistics) add(ActionKind::commit_statistics);
  }

  void add_transfer(const Transfer& transfer, int micro_batch) {
    const int from = program_.sender(transfer), to = program_.receiver(transfer);
    const int from_stage = transfer.between_devices() ? -1 : transfer.from, to_stage = transfer.between_devices() ? -1 : transfer.to;
    add({from, ActionKind::send, from_stage, micro_batch, transfer});
    add({to, ActionKind::recv, to_stage, micro_batch, transfer});
    if (from == to) return;
    add({to, ActionKind::recv_post, to_stage, micro_batch, transfer});
    add({from, ActionKind::send_wait, from_stage, micro_batch, transfer});
  }

  const Program& program_;
  const Dataflow& flow_;
  std::vector<std::vector<Key>> keys_;
};

}  // namespace

std::optional<Violation> check_actions(const Trial& trial) {
  const auto expected = ExpectedActions(trial).take();
  std::optional<Violation> missing;
  for (int device = 0; device < trial.program.device_count(); ++device) {
    std::unordered_map<Key, bool, KeyHash> is_there;  // of one device at a time, which caches hold
    is_there.reserve(expected[device].size());
    for (const Key& key : expected[device]) is_there.emplace(key, false);
    const auto& actions = trial.program.devices[device];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const auto found = is_there.find(key_of(device, actions[i]));
      if (found != is_there.end() && !std::exchange(found->second, true)) continue;
      return trial.violation(device, static_cast<int>(i),
                             found == is_there.end() ? "has no place there: " : "stands there twice: ", rule_of(actions[i].kind));
    }
    for (const Key& key : expected[device])
      if (!missing && !is_there[key]) {
        const auto& [of_device, kind, stage, micro_batch, transfer] = key;
        missing = trial.missing(device, -1, {kind, stage, micro_batch, transfer, {}}, "is missing: ", rule_of(kind));
      }
  }
  return missing;
}

}  // namespace sluice::parallel
