#include "parallel/plan/step_times.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <span>

namespace sluice::parallel {

namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The values of a key; none where there is none.
template <class Key>
std::vector<double> values_at(const std::map<Key, std::vector<double>>& all, const Key& key) {
  const auto found = all.find(key);
  return found == all.end() ? std::vector<double>{} : found->second;
}

/// A part of a node's times, and the actions that show it.
struct TimedPart {
  ActionKind kind;
  double NodeTimes::*time;
};
constexpr std::array kForwardParts{TimedPart{ActionKind::forward, &NodeTimes::forward},
                                   TimedPart{ActionKind::recompute, &NodeTimes::recompute}};
constexpr std::array kBackwardParts{TimedPart{ActionKind::backward, &NodeTimes::backward},
                                    TimedPart{ActionKind::input_gradient, &NodeTimes::input_gradient},
                                    TimedPart{ActionKind::weight_gradient, &NodeTimes::weight_gradient}};

/// How much longer something took than was counted.
struct Excess {
  double measured = 0, counted = 0;
  double factor() const { return measured > 0 && counted > 0 ? measured / counted : 1; }
  void add(const Excess& other) {
    measured += other.measured;
    counted += other.counted;
  }
};

/// Corrects the times of all nodes on one kind of device.
class TimesCorrection {
 public:
  TimesCorrection(const Plan& plan, int kind, const StepTimes& steps, std::vector<NodeTimes>& times)
      : plan_(plan), steps_(steps), times_(times), all_(times.size()) {
    std::iota(all_.begin(), all_.end(), 0);
    const auto placement = device_of_stage(plan);
    const auto kinds = device_kinds(plan.devices);
    const Partition& stages = plan.partition.segments();
    for (size_t copy = 0; copy < placement.size(); ++copy) {  // replica by replica
      if (kinds[placement[copy]] != kind) continue;
      const int stage = static_cast<int>(copy) % stages.stage_count(), device = placement[stage];  // those of the first replica
      copies_of_device_[device].insert(placement[copy]);
      copies_of_stage_[stage].push_back(static_cast<int>(copy));
      if (copies_of_stage_[stage].size() > 1) continue;
      std::vector<int> nodes(static_cast<size_t>(stages.sizes[stage]));
      std::iota(nodes.begin(), nodes.end(), stages.first_node(stage));
      auto& of_device = nodes_of_device_[device];
      of_device.insert(of_device.end(), nodes.begin(), nodes.end());
      nodes_of_stage_[stage] = std::move(nodes);
    }
  }

  /// First as far as the whole kind shows it, then stage by stage, and at last each part that ran to what it took.
  void correct_actions(std::span<const TimedPart> parts) {
    Excess whole;
    std::map<int, Excess> of_stage;
    for (const auto& [stage, nodes] : nodes_of_stage_) {
      for (const TimedPart& part : parts)
        if (const double seconds = mean(stage, part.kind); seconds > 0) of_stage[stage].add({seconds, sum(nodes, part)});
      whole.add(of_stage[stage]);
    }
    for (const TimedPart& part : parts) scale(all_, part.time, whole.factor());
    for (const auto& [stage, nodes] : nodes_of_stage_)
      for (const TimedPart& part : parts) {
        scale(nodes, part.time, of_stage[stage].factor() / whole.factor());
        fit(nodes, part, mean(stage, part.kind));
      }
  }

  void correct_ends() {
    constexpr TimedPart kEnd{ActionKind::step, &NodeTimes::step};
    const double shards = plan_.replication.shards() ? plan_.replication.replicas : 1;  // of which a device steps one
    Excess whole;
    for (const auto& [device, nodes] : nodes_of_device_) whole.add({shards * mean_end(device), sum(nodes, kEnd)});
    scale(all_, kEnd.time, whole.factor());
    for (const auto& [device, nodes] : nodes_of_device_) fit(nodes, kEnd, shards * mean_end(device));
  }

 private:
  bool is_run(int node, const TimedPart& part) const { return part.kind != ActionKind::recompute || plan_.rematerialize[node]; }

  /// Over the replicas that have it on a device of this kind, as far as it was seen there.
  double mean(int stage, ActionKind kind) const {
    return mean_of_seen(copies_of_stage_.at(stage), [&](int copy) { return steps_.mean(copy, kind); });
  }
  double mean_end(int device) const {
    return mean_of_seen(copies_of_device_.at(device), [&](int copy) { return steps_.mean_end(copy); });
  }

  template <class Copies, class Seconds>
  static double mean_of_seen(const Copies& copies, Seconds seconds) {
    std::vector<double> seen;
    for (const int copy : copies)
      if (const double value = seconds(copy); value > 0) seen.push_back(value);
    return mean_of(seen);
  }

  double sum(const std::vector<int>& nodes, const TimedPart& part) const {
    double seconds = 0;
    for (const int node : nodes)
      if (is_run(node, part)) seconds += times_[node].*part.time;
    return seconds;
  }

  void scale(const std::vector<int>& nodes, double NodeTimes::*time, double factor) {
    for (const int node : nodes) times_[node].*time *= factor;
  }

  /// Makes the nodes add up to `seconds`, where that was measured.
  void fit(const std::vector<int>& nodes, const TimedPart& part, double seconds) {
    if (seconds <= 0) return;
    if (const double before = sum(nodes, part); before > 0) return scale(nodes, part.time, seconds / before);
    const auto count = std::ranges::count_if(nodes, [&](int node) { return is_run(node, part); });
    for (const int node : nodes)
      if (is_run(node, part)) times_[node].*part.time = seconds / static_cast<double>(count);
  }

  const Plan& plan_;
  const StepTimes& steps_;
  std::vector<NodeTimes>& times_;
  std::vector<int> all_;
  std::map<int, std::vector<int>> nodes_of_stage_, nodes_of_device_;  // of this kind, by numbers of the first replica
  std::map<int, std::vector<int>> copies_of_stage_;                   // the stages of all replicas
  std::map<int, std::set<int>> copies_of_device_;
};

}  // namespace

void StepTimes::add(const Trace& trace) {
  std::map<int, double> ends;
  for (const TraceEvent& event : trace.events) {
    if (event.action.transfer.payload != Payload::none) continue;
    const double seconds = event.end - event.start;
    if (event.action.micro_batch >= 0)
      actions_[{event.action.stage, event.action.kind}].push_back(seconds);
    else if (event.action.kind != ActionKind::shard_gradients && event.action.kind != ActionKind::fold_shards)  // which no node takes
      ends[event.device] += seconds;
  }
  for (const auto& [device, seconds] : ends) ends_[device].push_back(seconds);
  add_hand_overs(trace);
}

void StepTimes::add_hand_overs(const Trace& trace) {
  std::map<std::pair<Transfer, int>, double> sent;
  for (const TraceEvent& event : trace.events)
    if (event.action.kind == ActionKind::send) sent[{event.action.transfer, event.action.micro_batch}] = event.start;
  for (const TraceEvent& event : trace.events) {
    if (event.action.kind != ActionKind::recv) continue;
    const auto send = sent.find({event.action.transfer, event.action.micro_batch});
    if (send != sent.end() && event.start < send->second) hand_overs_.push_back(event.end - send->second);
  }
}

double StepTimes::median(int stage, ActionKind kind) const { return median_of(values_at(actions_, std::pair{stage, kind})); }
double StepTimes::mean(int stage, ActionKind kind) const { return mean_of(values_at(actions_, std::pair{stage, kind})); }
double StepTimes::mean_end(int device) const { return mean_of(values_at(ends_, device)); }
double StepTimes::mean_hand_over() const { return mean_of(hand_overs_); }

double StepTimes::median_end() const {
  double seconds = 0;
  for (const auto& [device, values] : ends_) seconds += median_of(values);
  return seconds;
}

StepTimes times_of_usual(std::vector<Trace> steps) {
  std::ranges::sort(steps, {}, &Trace::seconds);
  const size_t quarter = steps.size() / 4;
  StepTimes times;
  for (size_t i = quarter; i < steps.size() - quarter; ++i) times.add(steps[i]);
  return times;
}

std::vector<std::vector<NodeTimes>> measured_times(const Plan& plan, std::vector<std::vector<NodeTimes>> counted, const StepTimes& steps) {
  for (size_t kind = 0; kind < counted.size(); ++kind) {
    for (NodeTimes& node : counted[kind]) node.copy = node.crowding = node.crowding_bytes = 0;
    TimesCorrection correction(plan, static_cast<int>(kind), steps, counted[kind]);
    correction.correct_actions(kForwardParts);
    correction.correct_actions(kBackwardParts);
    correction.correct_ends();
  }
  return counted;
}

}  // namespace sluice::parallel
