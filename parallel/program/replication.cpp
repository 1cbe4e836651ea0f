#include "parallel/program/replication.h"

#include <bit>

#include "core/error.h"

namespace sluice::parallel {

MicroBatchRange part_of(int micro_batches, int part, int parts) {
  const auto first = [&](int64_t number) { return static_cast<int>(number * micro_batches / parts); };
  return {first(part), first(int64_t{part} + 1)};
}

int part_with(int micro_batch, int micro_batches, int parts) {
  return static_cast<int>(((int64_t{micro_batch} + 1) * parts - 1) / micro_batches);
}

std::string fault_of(const Replication& replication) {
  const auto [replicas, blocks, shards] = replication;
  if (replicas < 1) return join("needs at least one replica, got ", replicas, "; set 1 to train without others");
  if (blocks < 1) return join("needs at least one fold block, got ", blocks, "; set 1 to add gradients up one after the other");
  if (replicas == 1) return {};
  if (blocks % replicas == 0 && std::has_single_bit(static_cast<unsigned>(blocks / replicas))) return {};
  return join("needs 1, 2, 4, 8, ... fold blocks for each of the ", replicas, " replicas, got ", blocks, " in all; set ", replicas, " or ",
              int64_t{2} * replicas, " fold blocks, or another number of replicas");
}

std::string_view name_of(ReplicaDevices devices) { return devices == ReplicaDevices::together ? "together" : "apart"; }
std::ostream& operator<<(std::ostream& out, ReplicaDevices devices) { return out << name_of(devices); }

int device_of_replica(ReplicaDevices which, int device, int replica, int replicas, int devices_of_replica) {
  return which == ReplicaDevices::together ? replica * devices_of_replica + device : device * replicas + replica;
}

Schedule replicated(const std::vector<Schedule>& replicas, int micro_batches, ReplicaDevices which) {
  require(!replicas.empty(), "schedule: needs at least one replica, got none");
  const int devices = replicas[0].device_count(), stages = replicas[0].stage_count(), parts = static_cast<int>(replicas.size());
  Schedule all{replicas[0].name, micro_batches, {}, {}};
  all.devices.resize(static_cast<size_t>(parts) * static_cast<size_t>(devices));
  for (int replica = 0; replica < parts; ++replica) {
    const Schedule& own = replicas[replica];
    const MicroBatchRange range = part_of(micro_batches, replica, parts);
    require(own.device_count() == devices && own.stage_count() == stages && own.micro_batches == range.count(),
            "schedule: needs replicas of ", devices, " devices, ", stages, " stages and, for number ", replica, ", ", range.count(),
            " micro-batches, got ", own.device_count(), ", ", own.stage_count(), " and ", own.micro_batches,
            "; make each for its part_of the mini-batch");
    const auto in_group = [&](int device) { return device_of_replica(which, device, replica, parts, devices); };
    for (const int device : own.device_of_stage) all.device_of_stage.push_back(in_group(device));
    for (int device = 0; device < devices; ++device) {
      auto& actions = all.devices[in_group(device)] = own.devices[device];
      for (ComputeAction& action : actions) {
        action.stage += replica * stages;
        action.micro_batch += range.first;
      }
    }
  }
  return all;
}

}  // namespace sluice::parallel
