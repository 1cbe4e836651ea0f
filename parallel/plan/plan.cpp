#include "parallel/plan/plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/cuda/cuda.h"
#include "core/device_speeds.h"
#include "parallel/plan/check.h"
#include "parallel/program/schedule_check.h"

namespace sluice::parallel {

namespace {

/// The placement of the whole stages of one replica.
std::vector<int> placement_of(const Plan& plan) {
  if (const auto* own = plan.schedule.own()) return own->device_of_stage;
  if (const auto* searched = plan.schedule.searched()) return searched->order().device_of_stage;
  const int devices = devices_of_replica(plan);
  return stage_placement(*plan.schedule.named(), devices, std::max(1, plan.partition.stage_count() / devices));
}

Schedule stage_schedule(const Plan& plan, int micro_batches) {
  if (const auto* name = plan.schedule.named()) return make_schedule(*name, placement_of(plan), micro_batches);
  if (const auto* searched = plan.schedule.searched()) {
    const Schedule& order = searched->order();
    if (order.micro_batches == micro_batches) return order;
    return searched->search_again(micro_batches).schedule;
  }
  const Schedule* fixed = plan.schedule.own_for(micro_batches);
  require(fixed != nullptr, "Plan::schedule: '", plan.schedule.own()->name, "' is for ", plan.schedule.own()->micro_batches,
          " micro-batches, got a mini-batch of ", micro_batches, "; set PlanOptions::micro_batches, or use a schedule by name");
  return *fixed;
}

/// At least one of `what` a `whole`, and no more in all than an int counts.
void require_counts(const std::vector<int>& counts, const char* what, const char* whole) {
  int64_t sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    require(counts[i] >= 1, "Plan::partition: needs at least one ", what, " a ", whole, ", got ", counts[i], " for ", whole, " ", i);
    sum += counts[i];
  }
  require(sum <= std::numeric_limits<int>::max(), "Plan::partition: needs a model's ", what, "s, got ", sum, " of them");
}

}  // namespace

SegmentedPartition::SegmentedPartition(Partition stages) : segments_(std::move(stages)), segments_of_stage_(segments_.sizes.size(), 1) {
  require_counts(segments_.sizes, "node", "stage");
}

SegmentedPartition::SegmentedPartition(Partition segments, std::vector<int> segments_of_stage)
    : segments_(std::move(segments)), segments_of_stage_(std::move(segments_of_stage)) {
  require_counts(segments_.sizes, "node", "segment");
  require_counts(segments_of_stage_, "segment", "stage");
  const auto sum = std::accumulate(segments_of_stage_.begin(), segments_of_stage_.end(), int64_t{0});
  require(sum == segments_.stage_count(), "Plan::partition: needs stages of ", segments_.stage_count(), " segments in all, got ", sum,
          "; give every stage its number");
}

FoundSchedule SearchedSchedule::search_again(int micro_batches, const std::vector<double>& byte_caps) const {
  return search_schedule(costs_, order_.device_of_stage, micro_batches, byte_caps);
}

std::vector<int> SegmentedPartition::stage_sizes() const {
  std::vector<int> sizes;
  auto segment = segments_.sizes.begin();
  for (const int count : segments_of_stage_) {
    sizes.push_back(std::accumulate(segment, segment + count, 0));
    segment += count;
  }
  return sizes;
}

SearchedSchedule::SearchedSchedule(Schedule order, StageCosts costs) : order_(std::move(order)), costs_(std::move(costs)) {
  require_complete(order_, "Plan::schedule");
  try {
    require_costs(costs_, order_.stage_count(), costs_.can_split());
  } catch (const UsageError& error) {
    throw UsageError(join("Plan::schedule: ", error.what()));
  }
}

PlannedSchedule::PlannedSchedule(Schedule own) : PlannedSchedule(std::vector{std::move(own)}) {}
PlannedSchedule::PlannedSchedule(std::vector<Schedule> own) : own_(std::make_shared<const std::vector<Schedule>>(std::move(own))) {
  require(!own_->empty(), "Plan::schedule: needs at least one order, got none");
}
PlannedSchedule::PlannedSchedule(SearchedSchedule searched) : searched_(std::make_shared<const SearchedSchedule>(std::move(searched))) {}

const Schedule* PlannedSchedule::own_for(int micro_batches) const {
  if (!own_) return nullptr;
  const auto found = std::ranges::find(*own_, micro_batches, &Schedule::micro_batches);
  return found == own_->end() ? nullptr : &*found;
}

std::string name_of(const PlannedSchedule& schedule) {
  if (const auto* name = schedule.named()) return std::string(name_of(*name));
  if (const auto* own = schedule.own()) return own->name;
  return "auto";
}

std::vector<int> device_kinds(const std::vector<DevicePtr>& devices) {
  const auto is_alike = [](const Device& a, const Device& b) {
    const Device::Options &x = a.options(), &y = b.options();
    if (a.kind() != b.kind() || a.backend() != b.backend() || x.threads != y.threads || x.model != y.model || x.allow_tf32 != y.allow_tf32)
      return false;
    if (a.kind() == DeviceKind::cuda && describe_gpu(a).name != describe_gpu(b).name) return false;
    return nominal_speed(a, Precision::f32) == nominal_speed(b, Precision::f32);
  };
  std::vector<int> kinds;
  std::vector<const Device*> first;  // by kind
  for (const auto& device : devices) {
    const auto known = std::ranges::find_if(first, [&](const Device* other) { return is_alike(*device, *other); });
    kinds.push_back(static_cast<int>(known - first.begin()));
    if (known == first.end()) first.push_back(device.get());
  }
  return kinds;
}

int devices_of_replica(const Plan& plan) { return static_cast<int>(plan.devices.size()) / plan.replication.replicas; }

namespace {

/// The device of each segment of a replica, among the replica's own.
std::vector<int> segment_placement(const Plan& plan) {
  const auto placement = placement_of(plan);
  std::vector<int> devices;
  for (size_t stage = 0; stage < placement.size(); ++stage)
    devices.insert(devices.end(), plan.partition.segments_of_stage()[stage], placement[stage]);
  return devices;
}

}  // namespace

std::vector<int> device_of_stage(const Plan& plan) {
  require_valid(plan);
  const int replicas = plan.replication.replicas;
  std::vector<int> devices;
  for (int replica = 0; replica < replicas; ++replica)
    for (const int device : segment_placement(plan))
      devices.push_back(device_of_replica(plan.replica_devices, device, replica, replicas, devices_of_replica(plan)));
  return devices;
}

Schedule schedule_of(const Plan& plan, int micro_batches) {
  require_valid(plan);
  const int replicas = plan.replication.replicas;
  require(micro_batches >= replicas, "Plan::replication: needs at least one micro-batch for each of the ", replicas, " replicas, got ",
          micro_batches, "; train in more micro-batches, or with fewer replicas");
  std::vector<Schedule> schedules;
  for (int replica = 0; replica < replicas; ++replica)
    schedules.push_back(
        in_segments(stage_schedule(plan, part_of(micro_batches, replica, replicas).count()), plan.partition.segments_of_stage()));
  return replicated(schedules, micro_batches, plan.replica_devices);
}

Schedule evaluation_schedule_of(const Plan& plan, int micro_batches) {
  require_valid(plan);
  const std::vector<int> of_replica = segment_placement(plan);
  std::vector<Schedule> schedules;
  for (int replica = 0; replica < plan.replication.replicas; ++replica) {
    const int own = part_of(micro_batches, replica, plan.replication.replicas).count();
    Schedule schedule = forward_schedule(of_replica, std::max(own, 1));
    schedule.micro_batches = own;
    if (own == 0) std::ranges::for_each(schedule.devices, [](auto& order) { order.clear(); });
    schedules.push_back(std::move(schedule));
  }
  return replicated(schedules, micro_batches, plan.replica_devices);
}

}  // namespace sluice::parallel
