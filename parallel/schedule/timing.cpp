#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "core/error.h"
#include "parallel/schedule/search.h"
#include "parallel/schedule/stage_clock.h"

namespace sluice::parallel {

namespace {

void require_costs(const std::vector<double>& costs, int stages, bool may_be_empty, const char* name) {
  const bool is_right = static_cast<int>(costs.size()) == stages || (may_be_empty && costs.empty());
  require(is_right, "schedule: needs the costs ", name, " of ", stages, " stages, got ", costs.size(), "; give one a stage");
  for (double cost : costs)
    require(cost >= 0 && cost < 1e300, "schedule: costs are finite and >= 0, got ", name, " ", cost, "; profile again");
}

void require_transfers(const std::vector<StageTransfer>& transfers, int stages, bool forward) {
  for (const auto& [from, to, bytes] : transfers) {
    require(from >= 0 && to >= 0 && from < stages && to < stages && (forward ? from < to : from > to), "schedule: needs ",
            forward ? "activations" : "gradients", " from one of ", stages, " stages to ", forward ? "a later" : "an earlier", " one, got ",
            from, " to ", to, "; make them for this cut");
    require(bytes >= 0 && bytes < 1e300, "schedule: needs bytes of a transfer that are finite and >= 0, got ", bytes, "; profile again");
  }
}

void require_link(const Link& link) {
  require(link.latency_seconds >= 0 && link.latency_seconds < 1e300 && link.bytes_per_second >= 0,
          "schedule: needs links with a finite latency >= 0 and a bandwidth >= 0, got ", link.latency_seconds, " s and ",
          link.bytes_per_second, " bytes/s; profile again");
}

/// Runs every device as far as it can, and again when what it waits for has been sent. Returns how far each came.
std::vector<std::size_t> run_orders(const Schedule& schedule, StageClock& stages) {
  std::vector<std::size_t> position(schedule.devices.size(), 0);
  std::vector<bool> is_ready(schedule.devices.size(), true);
  std::vector<int> ready(schedule.devices.size());
  std::iota(ready.rbegin(), ready.rend(), 0);
  while (!ready.empty()) {
    const int device = ready.back();
    ready.pop_back();
    for (const auto& order = schedule.devices[device]; position[device] < order.size(); ++position[device]) {
      const ComputeAction& action = order[position[device]];
      if (stages.arrival(action) == kUnknown) break;
      stages.run(action);
      for (const auto& [stage, arrival] : stages.completed()) {
        const int waiting = schedule.device_of_stage[stage];
        if (!is_ready[waiting]) ready.push_back(waiting);
        is_ready[waiting] = true;
      }
    }
    is_ready[device] = false;
  }
  return position;
}

/// All are under way before one is waited for.
void exchange(const Schedule& schedule, const std::vector<StageTransfer>& transfers, Clock& clock) {
  std::vector<double> arrival(schedule.devices.size(), 0.0);
  for (const auto& [from_stage, to_stage, bytes] : transfers) {
    const int from = schedule.device_of_stage[from_stage], to = schedule.device_of_stage[to_stage];
    arrival[to] = std::max(arrival[to], clock.transfer(from, to, std::max(clock.now(from), clock.now(to)), bytes).arrived);
  }
  for (int device = 0; device < schedule.device_count(); ++device) clock.wait(device, arrival[device]);
}

/// As `lower` ends a step: gradients of tied parameters go to their owners, the first stage's device gathers the parts of the norm and sends the
/// norm back, then each device runs the optimizer, and tied weights go back.
double seconds_with_step(const Schedule& schedule, const StageCosts& costs, Clock clock) {
  const int root = schedule.device_of_stage.front();
  exchange(schedule, costs.tied_gradients, clock);
  std::vector<double> arrival(schedule.devices.size(), 0.0);
  for (int device = 0; device < schedule.device_count(); ++device)
    arrival[device] = clock.transfer(device, root, std::max(clock.now(device), clock.now(root)), costs.norm.part).arrived;
  clock.wait(root, *std::max_element(arrival.begin(), arrival.end()));
  for (int device = 0; device < schedule.device_count(); ++device)
    clock.wait(device, clock.transfer(root, device, std::max(clock.now(root), clock.now(device)), costs.norm.norm).arrived);
  for (int stage = 0; stage < schedule.stage_count(); ++stage) clock.compute(schedule.device_of_stage[stage], cost_at(costs.step, stage));
  exchange(schedule, costs.tied_weights, clock);
  return clock.seconds();
}

bool has_kind(const Schedule& schedule, std::initializer_list<Compute> kinds) {
  const auto is_one = [&](const ComputeAction& action) { return std::find(kinds.begin(), kinds.end(), action.kind) != kinds.end(); };
  return std::any_of(schedule.devices.begin(), schedule.devices.end(),
                     [&](const auto& order) { return std::any_of(order.begin(), order.end(), is_one); });
}

}  // namespace

StageTransfers transfers_of(const StageCosts& costs, int stages) {
  if (!costs.activations.empty() || !costs.gradients.empty()) return {costs.activations, costs.gradients};
  StageTransfers chain;
  for (int stage = 0; stage + 1 < stages; ++stage) {
    chain.activations.push_back({stage, stage + 1, cost_at(costs.transfer, stage)});
    chain.gradients.push_back({stage + 1, stage, cost_at(costs.transfer, stage)});
  }
  return chain;
}

void require_costs(const StageCosts& costs, int stages, bool splits) {
  require_costs(costs.forward, stages, false, "forward");
  require_costs(costs.backward, stages, splits, "backward");
  require_costs(costs.input_gradient, stages, !splits, "input_gradient");
  require_costs(costs.weight_gradient, stages, !splits, "weight_gradient");
  require_costs(costs.recompute, stages, true, "recompute");
  require_costs(costs.transfer, stages, true, "transfer");
  require_costs(costs.kept, stages, true, "kept");
  require_costs(costs.kept_for_weights, stages, true, "kept_for_weights");
  require_costs(costs.step, stages, true, "step");
  require_transfers(costs.activations, stages, true);
  require_transfers(costs.gradients, stages, false);
  require_transfers(costs.tied_gradients, stages, false);
  require_transfers(costs.tied_weights, stages, true);
  require_link(costs.links.all);
  for (const Link& link : costs.links.of_device) require_link(link);
  for (const auto& [devices, link] : costs.links.of_pair) require_link(link);
}

ScheduleTiming time_schedule(const Schedule& schedule, const StageCosts& costs) {
  require_costs(costs, schedule.stage_count(), has_kind(schedule, {Compute::input_gradient, Compute::weight_gradient}));
  StageClock stages(costs, schedule.device_of_stage, schedule.device_count(), schedule.micro_batches);
  const auto position = run_orders(schedule, stages);
  ScheduleTiming timing{.seconds = stages.clock().seconds(), .bubble = stages.clock().bubble(), .peak_bytes = {}};
  for (int device = 0; device < schedule.device_count(); ++device) {
    require(position[device] == schedule.devices[device].size(), "schedule: device ", device, " waits for ever at its action ",
            position[device], " of '", schedule.name, "'; fix the order");
    timing.peak_bytes.push_back(stages.peak(device));
  }
  const bool trains = has_kind(schedule, {Compute::backward, Compute::input_gradient});
  timing.step_seconds = trains ? seconds_with_step(schedule, costs, stages.clock()) : timing.seconds;
  return timing;
}

}  // namespace sluice::parallel
