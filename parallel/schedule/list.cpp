#include "parallel/schedule/list.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "core/error.h"
#include "parallel/schedule/stage_clock.h"

namespace sluice::parallel {

namespace {

class ListScheduler {
 public:
  ListScheduler(const StageCosts& costs, const std::vector<int>& device_of_stage, int devices, int micro_batches, const ListRule& rule)
      : costs_(costs),
        rule_(rule),
        micro_batches_(micro_batches),
        schedule_{"auto", micro_batches, device_of_stage, std::vector<std::vector<ComputeAction>>(devices)},
        clock_(costs, schedule_.device_of_stage, devices, micro_batches),
        stages_(device_of_stage.size()),
        devices_(devices) {
    for (std::size_t s = stages_.size(); s-- > 0;) add_stage(static_cast<int>(s));
    for (int device = 0; device < devices; ++device) wakes_.push({0, device});
  }

  Schedule run() {
    const std::size_t forwards = stages_.size() * micro_batches_;
    while (done_forwards_ < forwards || done_weights_ < forwards) {
      if (wakes_.empty()) force();
      const auto [time, device] = wakes_.top();
      wakes_.pop();
      now_ = time;
      if (clock_.clock().now(device) > now_) continue;
      if (const auto action = choose(device, {forward(device), backward(device), weight(device)})) start(*action);
    }
    return std::move(schedule_);
  }

 private:
  struct Stage {
    int forwards = 0, backwards = 0, weights = 0;  ///< done
    double share = 1;                              ///< of its device
    double deeper = 0;                             ///< bytes that the deeper stages of its device keep of a micro-batch
  };
  struct Device {
    std::vector<int> stages;  ///< the deepest first
    double under_way = 0;
  };
  using Choice = std::optional<ComputeAction>;
  /// The best of each kind that a device could begin now.
  struct Choices {
    Choice forward, backward, weight;
  };

  void add_stage(int index) {
    Device& device = devices_[schedule_.device_of_stage[index]];
    for (int deeper : device.stages) stages_[index].deeper += cost_at(costs_.kept, deeper);
    device.stages.push_back(index);
    for (int s : device.stages) stages_[s].share = 1.0 / static_cast<double>(device.stages.size());
  }

  double next_activation(int s) const {
    return stages_[s].forwards < micro_batches_ ? clock_.activation(s, stages_[s].forwards) : kUnknown;
  }
  double next_gradient(int s) const { return stages_[s].backwards < micro_batches_ ? clock_.gradient(s, stages_[s].backwards) : kUnknown; }
  bool is_there(double arrival) const { return arrival <= now_ + kRounding * now_; }

  bool has_room(int device, double bytes) const {
    return rule_.byte_cap.empty() || clock_.held(device) + bytes <= rule_.byte_cap[device] * (1 + kRounding);
  }
  bool has_room_for_forward(int device, int s) const { return has_room(device, cost_at(costs_.kept, s) + stages_[s].deeper); }
  /// An I leaves what its W needs; a B leaves nothing.
  bool has_room_for(int device, const ComputeAction& backward) const {
    const int s = backward.stage;
    return backward.kind == Compute::backward || has_room(device, cost_at(costs_.kept_for_weights, s) - cost_at(costs_.kept, s));
  }

  /// A first stage of a device takes up a micro-batch only while few are under way there; deeper ones go on with what was taken up.
  bool may_forward(int device_index, int s) const {
    const Device& device = devices_[device_index];
    const bool takes_up = device.stages.back() == s;
    const bool are_few = device.under_way < kRounding || device.under_way + stages_[s].share <= rule_.under_way[device_index] + kRounding;
    return (!takes_up || are_few) && has_room_for_forward(device_index, s);
  }

  Choice forward(int device) const {
    Choice best;
    for (int s : devices_[device].stages)
      if (is_there(next_activation(s)) && may_forward(device, s) && (!best || rule_.shallow_first))
        best = {Compute::forward, s, stages_[s].forwards};
    return best;
  }

  /// The gradient that came first.
  Choice backward(int device) const {
    Choice best;
    for (int s : devices_[device].stages)
      if (is_there(next_gradient(s)) && (!best || next_gradient(s) < next_gradient(best->stage)))
        best = {rule_.splits[s] ? Compute::input_gradient : Compute::backward, s, stages_[s].backwards};
    return best;
  }

  /// Of the stage where most of them wait.
  Choice weight(int device) const {
    Choice best;
    int most = 0;
    for (int s : devices_[device].stages) {
      const int waiting = rule_.splits[s] ? stages_[s].backwards - stages_[s].weights : 0;
      if (waiting <= most) continue;
      most = waiting;
      best = {Compute::weight_gradient, s, stages_[s].weights};
    }
    return best;
  }

  /// The seconds until something that the device waits for is known to arrive; of gradients alone when `gradients_only`.
  double until_next_arrival(int device, bool gradients_only) const {
    double next = kUnknown;
    for (int s : devices_[device].stages) {
      if (const double arrival = next_gradient(s); !is_there(arrival)) next = std::min(next, arrival);
      if (const double arrival = next_activation(s); !gradients_only && !is_there(arrival)) next = std::min(next, arrival);
    }
    return next - now_;
  }

  Choice choose(int device, const Choices& can) const {
    if (can.backward && can.weight && !has_room_for(device, *can.backward)) return can.weight;
    if (can.backward && !(can.forward && rule_.forward_first)) return can.backward;
    if (can.forward) return forward_or_wait(device, can);
    return can.weight && is_worth_a_weight(device, *can.weight) ? can.weight : std::nullopt;
  }

  /// Where a gradient is about to arrive a forward would hold it up; a weight gradient that ends before does not.
  Choice forward_or_wait(int device, const Choices& can) const {
    if (rule_.forward_first) return can.forward;
    const double wait = until_next_arrival(device, true);
    if (wait >= rule_.patience * clock_.seconds(*can.forward)) return can.forward;
    return can.weight && wait >= clock_.seconds(*can.weight) ? can.weight : std::nullopt;
  }

  /// It frees the bytes that a forward lacks, or nothing that it would hold up arrives soon.
  bool is_worth_a_weight(int device, const ComputeAction& weight) const {
    return is_blocked_by_bytes(device) || until_next_arrival(device, false) >= rule_.patience * clock_.seconds(weight);
  }

  bool is_blocked_by_bytes(int device) const {
    return std::any_of(devices_[device].stages.begin(), devices_[device].stages.end(),
                       [&](int s) { return is_there(next_activation(s)) && !has_room_for_forward(device, s); });
  }

  void start(const ComputeAction& action) {
    const int index = schedule_.device_of_stage[action.stage];
    count(action, stages_[action.stage], devices_[index]);
    clock_.run(action, now_);
    schedule_.devices[index].push_back(action);
    wakes_.push({clock_.clock().now(index), index});
    for (const auto& [stage, arrival] : clock_.completed()) wakes_.push({arrival, schedule_.device_of_stage[stage]});
  }

  void count(const ComputeAction& action, Stage& stage, Device& device) {
    if (action.kind == Compute::forward) {
      ++stage.forwards;
      ++done_forwards_;
      device.under_way += stage.share;
    } else if (action.kind == Compute::weight_gradient) {
      ++stage.weights;
      ++done_weights_;
    } else {
      ++stage.backwards;
      done_weights_ += action.kind == Compute::backward;
      device.under_way -= stage.share;
    }
  }

  /// Nobody may go on: the limits are too narrow. The deepest forward that waits goes nevertheless.
  void force() {
    for (std::size_t s = stages_.size(); s-- > 0;) {
      const int stage = static_cast<int>(s);
      if (next_activation(stage) == kUnknown) continue;
      now_ = std::max(now_, next_activation(stage));
      return start({Compute::forward, stage, stages_[s].forwards});
    }
    throw Error("schedule: list scheduling came to a stop; this is a fault of Sluice, choose another schedule");
  }

  const StageCosts& costs_;
  const ListRule& rule_;
  const int micro_batches_;
  Schedule schedule_;
  StageClock clock_;
  std::vector<Stage> stages_;
  std::vector<Device> devices_;
  std::size_t done_forwards_ = 0, done_weights_ = 0;
  double now_ = 0;
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> wakes_;  // when which device looks
};

}  // namespace

Schedule list_schedule(const StageCosts& costs, const std::vector<int>& device_of_stage, int devices, int micro_batches,
                       const ListRule& rule) {
  return ListScheduler(costs, device_of_stage, devices, micro_batches, rule).run();
}

}  // namespace sluice::parallel
