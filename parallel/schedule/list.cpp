#include "parallel/schedule/list.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "core/error.h"

namespace sluice::parallel {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(const StageCosts& costs, const std::vector<int>& device_of_stage, int devices, int micro_batches, const ListRule& rule)
      : costs_(costs), rule_(rule), stages_(device_of_stage.size()), devices_(devices), micro_batches_(micro_batches) {
    schedule_ = {"auto", micro_batches, device_of_stage, std::vector<std::vector<ComputeAction>>(devices)};
    for (const StageLink& link : links_of(costs, static_cast<int>(stages_.size()))) {
      stages_[link.from].out_of.push_back(link);
      stages_[link.to].into.push_back(link);
    }
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
      if (devices_[device].free_at <= now_) decide(device);
    }
    return std::move(schedule_);
  }

 private:
  /// What a stage waits for of a micro-batch: how many of it are still to be sent, and when the last of the others arrives.
  struct Arrival {
    int missing = 0;
    double latest = 0;
    double time() const { return missing > 0 ? kUnknown : latest; }
  };
  struct Stage {
    std::vector<StageLink> into, out_of;
    std::vector<Arrival> activation, gradient;  ///< by micro-batch
    int forwards = 0, backwards = 0, weights = 0;
    double share = 1;   ///< of its device
    double deeper = 0;  ///< bytes that the deeper stages of its device keep of a micro-batch
  };
  struct Device {
    std::vector<int> stages;  ///< the deepest first
    double free_at = 0, held = 0, under_way = 0;
  };
  struct Choice {
    Compute kind;
    int stage = -1;
  };

  void add_stage(int index) {
    Stage& stage = stages_[index];
    Device& device = devices_[schedule_.device_of_stage[index]];
    for (int deeper : device.stages) stage.deeper += cost_at(costs_.kept, deeper);
    device.stages.push_back(index);
    for (int s : device.stages) stages_[s].share = 1.0 / static_cast<double>(device.stages.size());
    const auto backs = std::count_if(stage.out_of.begin(), stage.out_of.end(), [](const StageLink& link) { return link.has_gradient; });
    stage.activation.assign(micro_batches_, {static_cast<int>(stage.into.size()), 0});
    stage.gradient.assign(micro_batches_, {static_cast<int>(backs) + 1, 0});  // one of them is its own forward
  }

  double next_activation(const Stage& stage) const {
    return stage.forwards < micro_batches_ ? stage.activation[stage.forwards].time() : kUnknown;
  }
  double next_gradient(const Stage& stage) const {
    return stage.backwards < micro_batches_ ? stage.gradient[stage.backwards].time() : kUnknown;
  }
  bool is_there(double arrival) const { return arrival <= now_ + kRounding * now_; }

  double seconds(const Choice& choice) const {
    switch (choice.kind) {
      case Compute::forward:
        return costs_.forward[choice.stage];
      case Compute::backward:
        return costs_.backward[choice.stage] + cost_at(costs_.recompute, choice.stage);
      case Compute::input_gradient:
        return costs_.input_gradient[choice.stage] + cost_at(costs_.recompute, choice.stage);
      case Compute::weight_gradient:
        return costs_.weight_gradient[choice.stage];
    }
    return 0;
  }

  bool has_room(int device_index, double bytes) const {
    return rule_.byte_cap.empty() || devices_[device_index].held + bytes <= rule_.byte_cap[device_index] * (1 + kRounding);
  }

  /// A first stage of a device takes up a micro-batch only while few are under way there; deeper ones go on with what was taken up.
  bool may_forward(int device_index, int s) const {
    const Device& device = devices_[device_index];
    const Stage& stage = stages_[s];
    const bool takes_up = device.stages.back() == s;
    const bool are_few = device.under_way < kRounding || device.under_way + stage.share <= rule_.under_way[device_index] + kRounding;
    return (!takes_up || are_few) && has_room(device_index, cost_at(costs_.kept, s) + stage.deeper);
  }

  Choice forward(int device_index) const {
    Choice best{Compute::forward};
    for (int s : devices_[device_index].stages)
      if (is_there(next_activation(stages_[s])) && may_forward(device_index, s) && (best.stage < 0 || rule_.shallow_first)) best.stage = s;
    return best;
  }

  /// The gradient that came first.
  Choice backward(int device_index) const {
    Choice best{Compute::backward};
    for (int s : devices_[device_index].stages)
      if (is_there(next_gradient(stages_[s])) && (best.stage < 0 || next_gradient(stages_[s]) < next_gradient(stages_[best.stage])))
        best.stage = s;
    if (best.stage >= 0 && rule_.splits[best.stage]) best.kind = Compute::input_gradient;
    return best;
  }

  Choice weight(int device_index) const {
    Choice best{Compute::weight_gradient};
    int most = 0;
    for (int s : devices_[device_index].stages) {
      const int waiting = rule_.splits[s] ? stages_[s].backwards - stages_[s].weights : 0;
      if (waiting > most) most = waiting, best.stage = s;
    }
    return best;
  }

  /// The next moment at which something that the device waits for is known to arrive; gradients alone when `gradients_only`.
  double next_arrival(const Device& device, bool gradients_only) const {
    double next = kUnknown;
    for (int s : device.stages) {
      if (const double arrival = next_gradient(stages_[s]); !is_there(arrival)) next = std::min(next, arrival);
      if (const double arrival = next_activation(stages_[s]); !gradients_only && !is_there(arrival)) next = std::min(next, arrival);
    }
    return next;
  }

  void decide(int device_index) {
    Device& device = devices_[device_index];
    const Choice ahead = forward(device_index), back = backward(device_index), gap = weight(device_index);
    const bool backward_has_room = back.stage < 0 || back.kind == Compute::backward || gap.stage < 0 ||
                                   has_room(device_index, cost_at(costs_.kept_for_weights, back.stage) - cost_at(costs_.kept, back.stage));
    if (!backward_has_room) return start(device_index, gap);
    if (back.stage >= 0 && (ahead.stage < 0 || !rule_.forward_first)) return start(device_index, back);
    if (ahead.stage >= 0) {
      const double wait = next_arrival(device, true) - now_;
      if (rule_.forward_first || wait >= rule_.patience * seconds(ahead)) return start(device_index, ahead);
      if (gap.stage >= 0 && wait >= seconds(gap)) return start(device_index, gap);
      return;
    }
    if (gap.stage < 0) return;
    const bool is_blocked = blocked_by_bytes(device_index);
    if (is_blocked || next_arrival(device, false) - now_ >= rule_.patience * seconds(gap)) start(device_index, gap);
  }

  bool blocked_by_bytes(int device_index) const {
    for (int s : devices_[device_index].stages)
      if (is_there(next_activation(stages_[s])) && !has_room(device_index, cost_at(costs_.kept, s) + stages_[s].deeper)) return true;
    return false;
  }

  void start(int device_index, const Choice& choice) {
    Device& device = devices_[device_index];
    Stage& stage = stages_[choice.stage];
    const double end = now_ + seconds(choice);
    const bool is_split = rule_.splits[choice.stage];
    const double kept = cost_at(costs_.kept, choice.stage), for_weights = is_split ? cost_at(costs_.kept_for_weights, choice.stage) : 0;
    int& counter = choice.kind == Compute::forward           ? stage.forwards
                   : choice.kind == Compute::weight_gradient ? stage.weights
                                                             : stage.backwards;
    const int micro_batch = counter++;
    if (choice.kind == Compute::forward) {
      ++done_forwards_;
      device.under_way += stage.share;
      device.held += kept;
      arrive(stages_[choice.stage].gradient[micro_batch], choice.stage, end);
      for (const StageLink& link : stage.out_of)
        arrive(stages_[link.to].activation[micro_batch], link.to, end + wire(choice.stage, link.to, link.activation));
    } else if (choice.kind == Compute::weight_gradient) {
      ++done_weights_;
      device.held -= for_weights;
    } else {
      done_weights_ += !is_split;
      device.under_way -= stage.share;
      device.held += for_weights - kept;
      for (const StageLink& link : stage.into)
        if (link.has_gradient)
          arrive(stages_[link.from].gradient[micro_batch], link.from, end + wire(choice.stage, link.from, link.gradient));
    }
    schedule_.devices[device_index].push_back({choice.kind, choice.stage, micro_batch});
    device.free_at = end;
    wakes_.push({end, device_index});
  }

  double wire(int from, int to, double seconds) const {
    return schedule_.device_of_stage[from] == schedule_.device_of_stage[to] ? 0 : seconds + costs_.latency;
  }

  /// One of the things that `stage` waits for is known to come at `time`.
  void arrive(Arrival& arrival, int stage, double time) {
    --arrival.missing;
    arrival.latest = std::max(arrival.latest, time);
    if (arrival.missing == 0) wakes_.push({arrival.latest, schedule_.device_of_stage[stage]});
  }

  /// Nobody may go on: the limits are too narrow. The deepest forward that waits goes nevertheless.
  void force() {
    for (std::size_t s = stages_.size(); s-- > 0;) {
      if (next_activation(stages_[s]) == kUnknown) continue;
      now_ = std::max(now_, next_activation(stages_[s]));
      return start(schedule_.device_of_stage[s], {Compute::forward, static_cast<int>(s)});
    }
    throw Error("schedule: list scheduling came to a stop; this is a fault of Sluice, choose another schedule");
  }

  const StageCosts& costs_;
  const ListRule& rule_;
  std::vector<Stage> stages_;
  std::vector<Device> devices_;
  int micro_batches_;
  Schedule schedule_;
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
