#include "parallel/plan/counted_bytes.h"

#include <algorithm>

#include "core/file/hash.h"
#include "parallel/plan/plan.h"

namespace sluice::parallel {

namespace {

using Work = std::vector<int64_t>;  // what a device does

/// Orders may have ten thousands of actions: what is known is kept under their hash.
std::string key_of(const Work& work) {
  return sluice::hash_of({reinterpret_cast<const char*>(work.data()), work.size() * sizeof(int64_t)});
}

void append(const std::vector<ComputeAction>& order, Work& work) {
  work.push_back(std::ssize(order));
  for (const auto& [kind, stage, micro_batch] : order) work.insert(work.end(), {static_cast<int64_t>(kind), stage, micro_batch});
}

Work order_on(const Schedule& schedule, int device) {
  Work work{device, schedule.micro_batches};
  append(schedule.devices[device], work);
  return work;
}

Work stages_on(const Schedule& schedule, const Partition& stages, int device) {
  Work work = order_on(schedule, device);
  for (int stage = 0, first = 0; stage < stages.stage_count(); first += stages.sizes[stage++])
    if (schedule.device_of_stage[stage] == device) work.insert(work.end(), {first, stages.sizes[stage]});
  return work;
}

/// By node: its segment.
std::vector<int> segments_of_nodes(const Partition& segments) {
  std::vector<int> numbers;
  for (int segment = 0; segment < segments.stage_count(); ++segment) numbers.insert(numbers.end(), segments.sizes[segment], segment);
  return numbers;
}

}  // namespace

/// The device's nodes, those that it exchanges values and gradients of tied parameters with, and the orders of all, which decide how early it
/// receives.
std::string CountedBytes::key_of_work(const FoundPlan& plan, int device) const {
  const std::vector<int> segment_of = segments_of_nodes(plan.partition);
  const std::vector<int> device_of = in_segments(plan.schedule, plan.segments).device_of_stage;
  const auto is_own = [&](int node) { return node >= 0 && device_of[segment_of[node]] == device; };
  Work work{device, plan.micro_batches};
  for (const auto& order : plan.schedule.devices) append(order, work);
  work.insert(work.end(), plan.segments.begin(), plan.segments.end());
  std::vector<bool> recomputes(device_of.size());
  for (size_t node = 0; node < segment_of.size(); ++node)
    if (plan.rematerialize[node]) recomputes[segment_of[node]] = true;
  work.insert(work.end(), recomputes.begin(), recomputes.end());
  for (int node = 0; node < topology_.node_count(); ++node) {
    const auto& inputs = topology_.nodes[node].inputs;
    const auto maker = [&](int value) { return topology_.node_of(value); };
    if (is_own(node) || std::ranges::any_of(inputs, is_own, maker)) work.insert(work.end(), {node, segment_of[node]});
    if (!is_own(node)) continue;
    if (plan.rematerialize[node]) work.push_back(-1);
    for (const int value : inputs)
      if (maker(value) >= 0) work.push_back(segment_of[maker(value)]);
  }
  for (const auto& tied : topology_.tied)
    if (std::ranges::any_of(tied.nodes, is_own))
      for (const int node : tied.nodes) work.push_back(segment_of[node]);
  return key_of(work);
}

std::vector<int64_t> CountedBytes::count(const FoundPlan& plan) {
  --left_;
  auto counted = count_(plan);
  const Partition stages{SegmentedPartition(plan.partition, plan.segments).stage_sizes()};
  for (int device = 0; device < plan.schedule.device_count(); ++device) {
    const int64_t error = counted[device] - plan.peak_bytes[device];
    bytes_[key_of_work(plan, device)] = counted[device];
    errors_[key_of(stages_on(plan.schedule, stages, device))] = error;
    errors_.try_emplace(key_of(order_on(plan.schedule, device)), error);
  }
  return counted;
}

std::optional<int64_t> CountedBytes::of(const FoundPlan& plan, int device) const {
  if (bytes_.empty()) return std::nullopt;
  const auto known = bytes_.find(key_of_work(plan, device));
  return known == bytes_.end() ? std::nullopt : std::optional(known->second);
}

int64_t CountedBytes::error(const Schedule& schedule, const Partition& stages, int device) const {
  if (errors_.empty()) return 0;
  auto known = errors_.find(key_of(stages_on(schedule, stages, device)));
  if (known == errors_.end()) known = errors_.find(key_of(order_on(schedule, device)));
  return known == errors_.end() ? 0 : known->second;
}

bool CountedBytes::knows(const Schedule& schedule, const Partition& stages, int device) const {
  return errors_.contains(key_of(stages_on(schedule, stages, device)));
}

bool CountedBytes::knows(const Schedule& schedule) const { return errors_.contains(key_of(order_on(schedule, 0))); }

}  // namespace sluice::parallel
