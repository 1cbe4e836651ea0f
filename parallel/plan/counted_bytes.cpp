#include "parallel/plan/counted_bytes.h"

#include <algorithm>

#include "parallel/plan/plan.h"

namespace sluice::parallel {

namespace {

using Work = std::vector<int64_t>;

/// FNV-1a: orders of a search that differ are hardly ever alike, and a plan is counted before it is given out.
int64_t hash_of(const std::vector<ComputeAction>& order) {
  uint64_t hash = 14695981039346656037U;
  for (const auto& [kind, stage, micro_batch] : order)
    for (const int part : {static_cast<int>(kind), stage, micro_batch}) hash = (hash ^ static_cast<uint64_t>(part)) * 1099511628211U;
  return static_cast<int64_t>(hash);
}

Work order_on(const Schedule& schedule, int device) { return {device, schedule.micro_batches, hash_of(schedule.devices[device])}; }

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
CountedBytes::Work CountedBytes::work_on(const FoundPlan& plan, int device) const {
  const std::vector<int> segment_of = segments_of_nodes(plan.partition);
  const std::vector<int> device_of = in_segments(plan.schedule, plan.segments).device_of_stage;
  const auto is_own = [&](int node) { return node >= 0 && device_of[segment_of[node]] == device; };
  Work work{device, plan.micro_batches};
  for (const auto& order : plan.schedule.devices) work.push_back(hash_of(order));
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
  return work;
}

std::vector<int64_t> CountedBytes::count(const FoundPlan& plan) {
  --left_;
  auto counted = count_(plan);
  const Partition stages{SegmentedPartition(plan.partition, plan.segments).stage_sizes()};
  for (int device = 0; device < plan.schedule.device_count(); ++device) {
    const int64_t error = counted[device] - plan.peak_bytes[device];
    bytes_[work_on(plan, device)] = counted[device];
    errors_[stages_on(plan.schedule, stages, device)] = error;
    errors_.try_emplace(order_on(plan.schedule, device), error);
  }
  return counted;
}

std::optional<int64_t> CountedBytes::of(const FoundPlan& plan, int device) const {
  if (bytes_.empty()) return std::nullopt;
  const auto known = bytes_.find(work_on(plan, device));
  return known == bytes_.end() ? std::nullopt : std::optional(known->second);
}

int64_t CountedBytes::error(const Schedule& schedule, const Partition& stages, int device) const {
  if (errors_.empty()) return 0;
  auto known = errors_.find(stages_on(schedule, stages, device));
  if (known == errors_.end()) known = errors_.find(order_on(schedule, device));
  return known == errors_.end() ? 0 : known->second;
}

bool CountedBytes::knows(const Schedule& schedule, const Partition& stages, int device) const {
  return errors_.contains(stages_on(schedule, stages, device));
}

bool CountedBytes::knows(const Schedule& schedule) const { return errors_.contains(order_on(schedule, 0)); }

}  // namespace sluice::parallel
