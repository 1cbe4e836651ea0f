#include "parallel/program/link_sharing.h"

#include <algorithm>

namespace sluice::parallel {

int LinkSharing::of(const Transfer& transfer) {
  if (transfer.of_micro_batch() || transfer.between_devices() || program_.replication.replicas == 1) return 1;
  const std::pair key{transfer.from, transfer.to % program_.partition.stage_count()};
  auto found = known_.find(key);
  if (found == known_.end()) found = known_.emplace(key, receivers(key.first, key.second)).first;
  const bool is_apart = links_.are_apart(program_.sender(transfer), program_.receiver(transfer));
  return std::max(1, found->second[is_apart ? 1 : 0]);
}

LinkSharing::Receivers LinkSharing::receivers(int from, int to) const {
  Receivers counts{};
  const int sender = program_.device_of_stage[from];
  for (int stage = to; stage < program_.stage_count(); stage += program_.partition.stage_count())
    if (const int receiver = program_.device_of_stage[stage]; receiver != sender) ++counts[links_.are_apart(sender, receiver) ? 1 : 0];
  return counts;
}

}  // namespace sluice::parallel
