#include "parallel/program/verify.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "parallel/program/dataflow.h"
#include "parallel/program/verify_rules.h"

namespace sluice::parallel {

namespace {

/// The place of a compute action within its stage and micro-batch; 0 for what is no compute action.
int rank_in_micro_batch(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return 1;
    case ActionKind::recompute:
      return 2;
    case ActionKind::backward:
    case ActionKind::input_gradient:
      return 3;
    case ActionKind::weight_gradient:
      return 4;
    default:
      return 0;
  }
}

std::optional<Violation> check_phases(const Trial& trial, int device) {
  const auto& actions = trial.program.devices[device];
  const Action* latest = nullptr;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == ActionKind::recv_post || actions[i].kind == ActionKind::send_wait) continue;  // they change nothing
    if (latest && actions[i].phase() < latest->phase())
      return trial.violation(
          device, static_cast<int>(i), "comes after ", describe(*latest, trial.topology),
          ": a step ends with the sums over replicas and of tied gradients, the norm, the statistics, the step and the weights that others "
          "use, in this order");
    latest = &actions[i];
  }
  return {};
}

/// Each stage is on one device alone, so that one list serves all.
std::optional<Violation> check_micro_batches(const Trial& trial, int device, std::vector<const Action*>& latest) {
  const auto& actions = trial.program.devices[device];
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const int rank = rank_in_micro_batch(actions[i].kind);
    if (rank == 0) continue;
    const Action*& before = latest[static_cast<std::size_t>(actions[i].stage) * trial.program.micro_batches + actions[i].micro_batch];
    if (before && rank_in_micro_batch(before->kind) > rank)
      return trial.violation(device, static_cast<int>(i), "comes after ", describe(*before, trial.topology),
                             ": a micro-batch runs F, then R, then B or I, then W");
    before = &actions[i];
  }
  return {};
}

std::optional<Violation> check_accumulation(const Trial& trial, int device) {
  const auto& actions = trial.program.devices[device];
  std::map<int, int> latest;  // by stage
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind != ActionKind::backward && actions[i].kind != ActionKind::weight_gradient) continue;
    const auto [found, is_first] = latest.try_emplace(actions[i].stage, actions[i].micro_batch);
    if (!is_first && found->second > actions[i].micro_batch)
      return trial.violation(device, static_cast<int>(i), "comes after micro-batch ", found->second,
                             ": a stage accumulates its gradients in ascending micro-batch order");
    found->second = actions[i].micro_batch;
  }
  return {};
}

/// What leaves for the other replicas of a stage is complete.
std::optional<Violation> check_shares(const Trial& trial, int device) {
  const auto& actions = trial.program.devices[device];
  std::map<int, const Action*> shared;  // by stage: the first action that takes what its work on micro-batches made
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    const bool is_statistics = action.kind == ActionKind::send && action.transfer.payload == Payload::statistics;
    if (action.kind == ActionKind::shard_gradients || is_statistics) shared.try_emplace(action.stage, &action);
    const auto found = rank_in_micro_batch(action.kind) == 0 ? shared.end() : shared.find(action.stage);
    if (found != shared.end())
      return trial.violation(device, static_cast<int>(i), "comes after ", describe(*found->second, trial.topology),
                             ": what other replicas get of a stage is what all its micro-batches made");
  }
  return {};
}

std::string layout_fault(const Layout& layout, const Program& program) {
  if (program.micro_batches < 1) return join("it has ", program.micro_batches, " micro-batches");
  std::size_t actions = 0;
  for (const auto& list : program.devices) actions += list.size();
  if (static_cast<std::size_t>(program.micro_batches) > actions)
    return join("it has ", program.micro_batches, " micro-batches and only ", actions, " actions");
  if (const std::string fault = mismatch(layout); !fault.empty() || !program.training) return fault;
  const int replicas = program.replication.replicas;
  return program.micro_batches >= replicas ? "" : join("it has ", program.micro_batches, " micro-batches for ", replicas, " replicas");
}

}  // namespace

std::optional<Violation> check_order(const Trial& trial) {
  std::vector<const Action*> latest(static_cast<std::size_t>(trial.program.stage_count()) * trial.program.micro_batches, nullptr);
  for (int device = 0; device < trial.program.device_count(); ++device)
    if (auto found = check_micro_batches(trial, device, latest)) return found;
  for (const auto rule : {check_accumulation, check_phases, check_shares})
    for (int device = 0; device < trial.program.device_count(); ++device)
      if (auto found = rule(trial, device)) return found;
  return {};
}

std::optional<Violation> verify(const Topology& topology, const Program& program, const std::vector<int64_t>& budgets) {
  const Layout layout{topology,         program.partition,  program.device_of_stage, program.rematerialize, program.device_count(),
                      program.training, program.replication};
  const std::string fault = layout_fault(layout, program);
  if (!fault.empty()) return Violation{-1, -1, join("the program does not belong to the model: ", fault)};

  const Dataflow flow = dataflow(layout);
  const Trial trial{topology, program, flow};
  for (const auto rule : {check_actions, check_transfers, check_order, check_channels, check_buffers, check_progress})
    if (auto found = rule(trial)) return found;
  return budgets.empty() ? std::nullopt : check_budgets(trial, budgets);
}

std::optional<Violation> verify_budgets(const Topology& topology, const Program& program, const std::vector<int64_t>& budgets) {
  static const Dataflow none;
  return check_budgets({topology, program, none}, budgets);
}

void require_valid(const Topology& topology, const Program& program) {
  if (const auto found = verify(topology, program))
    throw UsageError(
        join("program: schedule '", program.schedule, "' is refused: ", found->reason, "; fix the schedule or choose another"));
}

}  // namespace sluice::parallel
