#include "parallel/program/replay.h"

namespace sluice::parallel {

std::size_t Messages::Hash::operator()(const Key& key) const {
  const auto& [transfer, micro_batch] = key;
  return hash_numbers({static_cast<int>(transfer.payload), transfer.value, transfer.consumer, transfer.from, transfer.to, micro_batch});
}

Messages::Messages(const Program& program) : of_action_(program.devices.size()) {
  std::size_t transfers = 0;
  for (const auto& actions : program.devices)
    for (const Action& action : actions) transfers += action.kind == ActionKind::send;
  numbers_.reserve(transfers);
  for (std::size_t device = 0; device < program.devices.size(); ++device) {
    of_action_[device].reserve(program.devices[device].size());
    for (const Action& action : program.devices[device]) {
      const bool moves = action.kind == ActionKind::send || action.kind == ActionKind::recv;
      of_action_[device].push_back(moves ? numbers_.try_emplace({action.transfer, action.micro_batch}, count()).first->second : -1);
    }
  }
}

}  // namespace sluice::parallel
