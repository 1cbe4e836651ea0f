#include "parallel/plan/check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/program/schedule_check.h"

namespace sluice::parallel {

namespace {

/// Sums of sizes that were checked one by one do not overflow in 64 bits.
int64_t sum_of(const std::vector<int>& sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t{0}); }

void require_fitting(const Plan& plan, NamedSchedule schedule) {
  require(std::ranges::find(kNamedSchedules, schedule) != kNamedSchedules.end(), "Plan::schedule: needs one of NamedSchedule, got number ",
          static_cast<int>(schedule));
  const int devices = devices_of_replica(plan), stages = plan.partition.stage_count();
  const int each = schedule == NamedSchedule::interleaved ? std::max(1, stages / devices) : 1;
  const size_t wanted = stage_placement(schedule, devices, each).size();
  require(stages == static_cast<int>(wanted), "Plan::partition: schedule ", name_of(schedule), " on ", devices, " devices needs ", wanted,
          " stages, got ", stages, "; cut the model anew");
}

void require_places(const Plan& plan, const Schedule& order) {
  require(order.device_count() == devices_of_replica(plan), "Plan::schedule: is for ", order.device_count(), " devices, Plan::devices has ",
          devices_of_replica(plan), plan.replication.replicas == 1 ? "" : " for each replica", "; give as many devices");
  require(order.stage_count() == plan.partition.stage_count(), "Plan::schedule: is for ", order.stage_count(),
          " stages, Plan::partition has ", plan.partition.stage_count(), "; cut the model into as many");
}

/// Every replica has an order for its own number of micro-batches.
void require_fitting(const Plan& plan, const std::vector<Schedule>& fixed) {
  for (const Schedule& order : fixed) {
    require_complete(order, "Plan::schedule");
    require_places(plan, order);
    require(order.device_of_stage == fixed[0].device_of_stage, "Plan::schedule: needs orders that place stages alike, got '", order.name,
            "' for ", order.micro_batches, " micro-batches, which places them otherwise; make them for one placement");
  }
  const int replicas = plan.replication.replicas;
  for (int replica = 0; replica < replicas; ++replica)
    require(plan.schedule.own_for(part_of(plan.micro_batches, replica, replicas).count()) != nullptr, "Plan::schedule: is for ",
            fixed[0].micro_batches, " micro-batches", replicas == 1 ? "" : " of each replica", ", Plan::micro_batches is ",
            plan.micro_batches, "; make them equal");
}

void require_numbers(const Plan& plan) {
  require(plan.micro_batches >= 1, "Plan::micro_batches: needs at least one, got ", plan.micro_batches);
  require_few_enough(plan.micro_batches, plan.partition.stage_count(), "Plan::micro_batches");
  require(plan.window.ahead >= 0 && plan.window.behind >= 0, "Plan::window: needs 0 or more actions ahead and behind, got ",
          plan.window.ahead, " and ", plan.window.behind, "; 0 takes the least memory");
  require(plan.bound_seconds >= 0 && std::isfinite(plan.bound_seconds), "Plan::bound_seconds: needs seconds >= 0, got ", plan.bound_seconds,
          "; 0 claims nothing");
  const auto kinds = device_kinds(plan.devices);
  const auto wanted = static_cast<size_t>(std::ranges::max(kinds) + 1);
  require(plan.times.empty() || plan.times.size() == wanted, "Plan::times: needs a list for each of the ", wanted,
          " kinds of devices, or none, got ", plan.times.size());
  for (const auto& kind : plan.times)
    for (const NodeTimes& node : kind)
      for (const auto part : kNodeTimes)
        require(is_node_time(node.*part), "Plan::times: needs times >= 0 and below 9e18, got ", node.*part, "; measure again");
}

}  // namespace

bool is_node_time(double value) { return value >= 0 && value < 9e18; }

void require_devices(const std::vector<DevicePtr>& devices, Precision precision, std::string_view name) {
  require(!devices.empty(), name, ": needs at least one device; give make_device(\"cpu:0\")");
  require(std::ranges::find(devices, nullptr) == devices.end(), name, ": needs devices, got a null pointer");
  std::vector<DevicePtr> sorted = devices;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  require(twice == sorted.end(), name, ": needs different devices, got one device twice; make a device for each place");
  for (const auto& device : devices) {
    require(device->kind() == devices[0]->kind(), name, ": needs devices of one kind, got ", devices[0]->name(), " and ", device->name());
    require(precision != Precision::tf32 || device->kind() != DeviceKind::cuda || device->options().allow_tf32, name,
            ": precision tf32 needs CUDA devices made with allow_tf32, ", device->name(), " was made without");
  }
}

void require_valid(const Plan& plan) {
  require(plan.precision == Precision::f32 || plan.precision == Precision::tf32 || plan.precision == Precision::bf16,
          "Plan::precision: needs f32, tf32 or bf16, got number ", static_cast<int>(plan.precision));
  require_devices(plan.devices, plan.precision, "Plan::devices");
  require(plan.partition.stage_count() > 0, "Plan::partition: needs at least one stage; give the number of nodes of each");
  require(plan.replica_devices == ReplicaDevices::together || plan.replica_devices == ReplicaDevices::apart,
          "Plan::replica_devices: needs together or apart, got number ", static_cast<int>(plan.replica_devices));
  const std::string fault = fault_of(plan.replication);
  require(fault.empty(), "Plan::replication: ", fault);
  const auto replicas = static_cast<size_t>(plan.replication.replicas);
  require(plan.devices.size() % replicas == 0, "Plan::replication: needs equally many devices for each of the ", replicas,
          " replicas, got ", plan.devices.size(), "; give a multiple of ", replicas);
  if (const auto* name = plan.schedule.named()) require_fitting(plan, *name);
  if (plan.schedule.own()) require_fitting(plan, plan.schedule.all_own());
  if (const auto* searched = plan.schedule.searched()) require_places(plan, searched->order());
  require_numbers(plan);
}

void require_nodes(const layers::Graph& graph) {
  require(!graph.nodes().empty(),
          "graph: needs nodes, has none; give the one that the model is in now, as a graph that was moved from is new");
}

void require_valid(const Plan& plan, const layers::Graph& graph) {
  require_valid(plan);
  require_nodes(graph);
  const auto nodes = static_cast<int64_t>(graph.nodes().size());
  const int64_t planned = sum_of(plan.partition.segments().sizes);
  require(planned == nodes, "Plan::partition: needs the model's ", nodes, " nodes in all, got ", planned,
          "; change the sizes of the stages");
  require(static_cast<int64_t>(plan.rematerialize.size()) == nodes, "Plan::rematerialize: needs an entry for each of the model's ", nodes,
          " nodes, got ", plan.rematerialize.size(), "; false recomputes nothing");
  for (const auto& kind : plan.times)
    require(static_cast<int64_t>(kind.size()) == nodes, "Plan::times: needs the times of the model's ", nodes, " nodes, got ", kind.size(),
            "; measure them for this model");
}

void require_timeout(double seconds, std::string_view name) {
  require(seconds > 0, name, " (pipeline.timeout): needs seconds > 0, which may be infinite, got ", seconds);
}

}  // namespace sluice::parallel
