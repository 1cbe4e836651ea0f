#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"
#include "parallel/schedule_search.h"

namespace sluice::parallel {

namespace {

constexpr double kNotYet = -1;

double at(const std::vector<double>& costs, int stage) { return costs.empty() ? 0 : costs[stage]; }

/// One clock a device and a direction of a link; activations and gradients arrive by stage and micro-batch.
class Clocks {
 public:
  Clocks(const Schedule& schedule, const StageCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        now_(schedule.device_count(), 0.0),
        busy_(now_),
        held_(now_),
        peak_(now_),
        activation_(static_cast<std::size_t>(schedule.stage_count()) * schedule.micro_batches, kNotYet),
        gradient_(activation_) {
    for (int m = 0; m < schedule.micro_batches; ++m) activation_[m] = 0;
    for (int stage = 0; stage + 1 < schedule.stage_count(); ++stage) {
      const int here = schedule.device_of_stage[stage], next = schedule.device_of_stage[stage + 1];
      forward_link_.push_back(link_between(here, next));
      backward_link_.push_back(link_between(next, here));
    }
    link_free_.assign(links_.size(), 0);
  }

  /// The device to which the last action has sent something, or -1.
  int receiver() const { return receiver_; }

  /// False when what the action waits for is not under way yet.
  bool run(int device, const ComputeAction& action) {
    const int stage = action.stage;
    const bool is_forward = action.kind == Compute::forward, is_weight = action.kind == Compute::weight_gradient;
    receiver_ = -1;
    const double arrival = is_weight ? 0 : (is_forward ? activation_ : gradient_)[place(stage, action.micro_batch)];
    if (arrival == kNotYet) return false;
    if (!is_forward && !is_weight) spend(device, at(costs_.recompute, stage));
    now_[device] = std::max(now_[device], arrival);
    spend(device, seconds(action));
    hold(device, action);
    if (is_forward && stage + 1 < schedule_.stage_count())
      activation_[place(stage + 1, action.micro_batch)] = sent(device, stage + 1, forward_link_[stage], at(costs_.transfer, stage));
    else if (is_forward)
      gradient_[place(stage, action.micro_batch)] = now_[device];
    else if (!is_weight && stage > 0)
      gradient_[place(stage - 1, action.micro_batch)] = sent(device, stage - 1, backward_link_[stage - 1], at(costs_.transfer, stage - 1));
    return true;
  }

  ScheduleTiming finish() const {
    const double seconds = *std::max_element(now_.begin(), now_.end());
    const double mean = std::accumulate(busy_.begin(), busy_.end(), 0.0) / static_cast<double>(busy_.size());
    return {seconds, seconds > 0 ? 1 - mean / seconds : 0, peak_};
  }

 private:
  std::size_t place(int stage, int micro_batch) const { return static_cast<std::size_t>(stage) * schedule_.micro_batches + micro_batch; }

  double seconds(const ComputeAction& action) const {
    switch (action.kind) {
      case Compute::forward:
        return costs_.forward[action.stage];
      case Compute::backward:
        return costs_.backward[action.stage];
      case Compute::input_gradient:
        return costs_.input_gradient[action.stage];
      case Compute::weight_gradient:
        return costs_.weight_gradient[action.stage];
    }
    return 0;
  }

  void spend(int device, double seconds) {
    now_[device] += seconds;
    busy_[device] += seconds;
  }

  void hold(int device, const ComputeAction& action) {
    const double kept = at(costs_.kept, action.stage), for_weights = at(costs_.kept_for_weights, action.stage);
    if (action.kind == Compute::forward) held_[device] += kept;
    if (action.kind == Compute::backward) held_[device] -= kept;
    if (action.kind == Compute::input_gradient) held_[device] += for_weights - kept;
    if (action.kind == Compute::weight_gradient) held_[device] -= for_weights;
    peak_[device] = std::max(peak_[device], held_[device]);
  }

  /// When what `device` sends now arrives at a stage.
  double sent(int device, int to_stage, int link, double wire_seconds) {
    const int to = schedule_.device_of_stage[to_stage];
    if (to == device) return now_[device];
    receiver_ = to;
    link_free_[link] = std::max(link_free_[link], now_[device]) + wire_seconds;
    return link_free_[link] + costs_.latency;
  }

  int link_between(int from, int to) { return links_.try_emplace({from, to}, static_cast<int>(links_.size())).first->second; }

  const Schedule& schedule_;
  const StageCosts& costs_;
  std::vector<double> now_, busy_, held_, peak_;   // by device
  std::vector<double> activation_, gradient_;      // by place: when it is there
  std::map<std::pair<int, int>, int> links_;       // number by sending and receiving device
  std::vector<int> forward_link_, backward_link_;  // by stage: to the next one and back
  std::vector<double> link_free_;                  // by link
  int receiver_ = -1;
};

void require_costs(const std::vector<double>& costs, int stages, bool may_be_empty, const char* name) {
  const bool is_right = static_cast<int>(costs.size()) == stages || (may_be_empty && costs.empty());
  require(is_right, "schedule: needs the costs ", name, " of ", stages, " stages, got ", costs.size(), "; give one a stage");
  for (double cost : costs)
    require(cost >= 0 && cost < 1e300, "schedule: costs are finite and >= 0, got ", name, " ", cost, "; profile again");
}

}  // namespace

void require_costs(const StageCosts& costs, int stages, bool splits) {
  require_costs(costs.forward, stages, false, "forward");
  require_costs(costs.backward, stages, splits, "backward");
  require_costs(costs.input_gradient, stages, !splits, "input_gradient");
  require_costs(costs.weight_gradient, stages, !splits, "weight_gradient");
  require_costs(costs.recompute, stages, true, "recompute");
  require_costs(costs.transfer, stages, true, "transfer");
  require_costs(costs.kept, stages, true, "kept");
  require_costs(costs.kept_for_weights, stages, true, "kept_for_weights");
  require(costs.latency >= 0 && costs.latency < 1e300, "schedule: needs a latency that is finite and >= 0, got ", costs.latency,
          "; profile again");
}

ScheduleTiming time_schedule(const Schedule& schedule, const StageCosts& costs) {
  const auto splits = [](const ComputeAction& action) {
    return action.kind == Compute::input_gradient || action.kind == Compute::weight_gradient;
  };
  const bool any_split = std::any_of(schedule.devices.begin(), schedule.devices.end(),
                                     [&](const auto& order) { return std::any_of(order.begin(), order.end(), splits); });
  require_costs(costs, schedule.stage_count(), any_split);
  Clocks clocks(schedule, costs);
  std::vector<std::size_t> position(schedule.devices.size(), 0);
  std::vector<bool> is_waiting(schedule.devices.size(), false);
  std::vector<int> ready(schedule.devices.size());
  std::iota(ready.rbegin(), ready.rend(), 0);
  while (!ready.empty()) {  // a device goes on as far as it can, then again when something was sent to it
    const int device = ready.back();
    ready.pop_back();
    is_waiting[device] = false;
    for (const auto& order = schedule.devices[device]; position[device] < order.size() && clocks.run(device, order[position[device]]);
         ++position[device])
      if (const int to = clocks.receiver(); to >= 0 && is_waiting[to]) {
        is_waiting[to] = false;
        ready.push_back(to);
      }
    is_waiting[device] = true;
  }
  for (int device = 0; device < schedule.device_count(); ++device)
    require(position[device] == schedule.devices[device].size(), "schedule: device ", device, " waits for ever at its action ",
            position[device], " of '", schedule.name, "'; mend the order");
  return clocks.finish();
}

}  // namespace sluice::parallel
