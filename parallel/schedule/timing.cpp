#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"
#include "parallel/schedule/search.h"

namespace sluice::parallel {

namespace {

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
        into_(schedule.stage_count()),
        out_of_(schedule.stage_count()),
        activation_(static_cast<std::size_t>(schedule.stage_count()) * schedule.micro_batches),
        gradient_(activation_) {
    for (const StageLink& link : links_of(costs, schedule.stage_count())) {
      const int from = schedule.device_of_stage[link.from], to = schedule.device_of_stage[link.to];
      const Route route{link, channel(from, to), channel(to, from)};
      into_[link.to].push_back(route);
      out_of_[link.from].push_back(route);
    }
    channel_free_.assign(channels_.size(), 0);
    for (int stage = 0; stage < schedule.stage_count(); ++stage) {
      const auto backs =
          std::count_if(out_of_[stage].begin(), out_of_[stage].end(), [](const Route& route) { return route.link.has_gradient; });
      for (int m = 0; m < schedule.micro_batches; ++m) {
        activation_[place(stage, m)].missing = static_cast<int>(into_[stage].size());
        gradient_[place(stage, m)].missing = static_cast<int>(backs) + 1;  // the last one: its own forward
      }
    }
  }

  /// The devices to which the last action has sent something.
  const std::vector<int>& receivers() const { return receivers_; }

  /// False when what the action waits for is not under way yet.
  bool run(int device, const ComputeAction& action) {
    const int stage = action.stage;
    const bool is_forward = action.kind == Compute::forward, is_weight = action.kind == Compute::weight_gradient;
    receivers_.clear();
    const Arrival arrival = is_weight ? Arrival{} : (is_forward ? activation_ : gradient_)[place(stage, action.micro_batch)];
    if (arrival.missing > 0) return false;
    if (!is_forward && !is_weight) spend(device, cost_at(costs_.recompute, stage));
    now_[device] = std::max(now_[device], arrival.latest);
    spend(device, seconds(action));
    hold(device, action);
    if (is_forward) {
      gradient_[place(stage, action.micro_batch)].add(now_[device]);
      for (const auto& [link, there, back] : out_of_[stage])
        activation_[place(link.to, action.micro_batch)].add(sent(device, link.to, there, link.activation));
    } else if (!is_weight) {
      for (const auto& [link, there, back] : into_[stage])
        if (link.has_gradient) gradient_[place(link.from, action.micro_batch)].add(sent(device, link.from, back, link.gradient));
    }
    return true;
  }

  ScheduleTiming finish() const {
    const double seconds = *std::max_element(now_.begin(), now_.end());
    const double mean = std::accumulate(busy_.begin(), busy_.end(), 0.0) / static_cast<double>(busy_.size());
    return {seconds, seconds > 0 ? 1 - mean / seconds : 0, peak_};
  }

 private:
  struct Route {
    StageLink link;
    int there, back;  ///< channels
  };
  /// What an action waits for: how many of it are still to come, and when the last of the others is there.
  struct Arrival {
    int missing = 0;
    double latest = 0;
    void add(double time) {
      --missing;
      latest = std::max(latest, time);
    }
  };

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
    const double kept = cost_at(costs_.kept, action.stage), for_weights = cost_at(costs_.kept_for_weights, action.stage);
    if (action.kind == Compute::forward) held_[device] += kept;
    if (action.kind == Compute::backward) held_[device] -= kept;
    if (action.kind == Compute::input_gradient) held_[device] += for_weights - kept;
    if (action.kind == Compute::weight_gradient) held_[device] -= for_weights;
    peak_[device] = std::max(peak_[device], held_[device]);
  }

  /// When what `device` sends now arrives at a stage.
  double sent(int device, int to_stage, int channel, double wire_seconds) {
    const int to = schedule_.device_of_stage[to_stage];
    if (to == device) return now_[device];
    receivers_.push_back(to);
    channel_free_[channel] = std::max(channel_free_[channel], now_[device]) + wire_seconds;
    return channel_free_[channel] + costs_.latency;
  }

  int channel(int from, int to) { return channels_.try_emplace({from, to}, static_cast<int>(channels_.size())).first->second; }

  const Schedule& schedule_;
  const StageCosts& costs_;
  std::vector<double> now_, busy_, held_, peak_;   // by device
  std::vector<std::vector<Route>> into_, out_of_;  // by stage
  std::vector<Arrival> activation_, gradient_;     // by place
  std::map<std::pair<int, int>, int> channels_;    // number by sending and receiving device
  std::vector<double> channel_free_;               // by channel
  std::vector<int> receivers_;
};

void require_costs(const std::vector<double>& costs, int stages, bool may_be_empty, const char* name) {
  const bool is_right = static_cast<int>(costs.size()) == stages || (may_be_empty && costs.empty());
  require(is_right, "schedule: needs the costs ", name, " of ", stages, " stages, got ", costs.size(), "; give one a stage");
  for (double cost : costs)
    require(cost >= 0 && cost < 1e300, "schedule: costs are finite and >= 0, got ", name, " ", cost, "; profile again");
}

}  // namespace

std::vector<StageLink> links_of(const StageCosts& costs, int stages) {
  if (!costs.links.empty()) return costs.links;
  std::vector<StageLink> chain;
  for (int stage = 0; stage + 1 < stages; ++stage)
    chain.push_back({stage, stage + 1, cost_at(costs.transfer, stage), cost_at(costs.transfer, stage), true});
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
  for (const StageLink& link : costs.links) {
    require(link.from >= 0 && link.from < link.to && link.to < stages, "schedule: needs links from one of ", stages,
            " stages to a later one, got ", link.from, " to ", link.to, "; make them for this cut");
    require_costs({link.activation, link.gradient}, 2, false, "of a link");
  }
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
      for (const int to : clocks.receivers())
        if (is_waiting[to]) {
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
