#pragma once
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// Numbers the messages of a program: a Send and the Recv of the same transfer and micro-batch have one number.
class Messages {
 public:
  explicit Messages(const Program& program);

  int count() const { return static_cast<int>(numbers_.size()); }
  /// Of the action at `index` of a device's list; -1 for what is neither Send nor Recv.
  int of(int device, int index) const { return of_action_[device][index]; }

 private:
  using Key = std::pair<Transfer, int>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, int, Hash> numbers_;
  std::vector<std::vector<int>> of_action_;  // by device and index
};

/// Runs all devices' lists as far as they go, with buffered sends and blocking receives, and calls `visit(device, index)` for each action
/// that runs: in list order on each device, and every Recv after its Send.
/// Returns how far each device came; one that is not at its end waits for ever in the Recv at that position.
template <class Visit>
std::vector<int> replay(const Program& program, const Messages& messages, Visit visit) {
  std::vector<char> sent(messages.count(), false);
  std::vector<int> position(program.devices.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int device = 0; device < program.device_count(); ++device) {
      const auto& actions = program.devices[device];
      for (int& index = position[device]; index < static_cast<int>(actions.size()); ++index, moved = true) {
        if (actions[index].kind == ActionKind::recv && !sent[messages.of(device, index)]) break;
        if (actions[index].kind == ActionKind::send) sent[messages.of(device, index)] = true;
        visit(device, index);
      }
    }
  }
  return position;
}

}  // namespace sluice::parallel
