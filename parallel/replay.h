#pragma once
#include <set>
#include <utility>
#include <vector>

#include "parallel/program.h"

namespace sluice::parallel {

/// Runs all devices' lists as far as they go, with buffered sends and blocking receives, and calls `visit(device, index)` for each action
/// that runs: in list order on each device, and every Recv after its Send.
/// Returns how far each device came; one that is not at its end waits for ever in the Recv at that position.
template <class Visit>
std::vector<int> replay(const Program& program, Visit visit) {
  std::set<std::pair<Transfer, int>> sent;
  std::vector<int> position(program.devices.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int device = 0; device < program.device_count(); ++device) {
      const auto& actions = program.devices[device];
      for (int& index = position[device]; index < static_cast<int>(actions.size()); ++index, moved = true) {
        const std::pair key{actions[index].transfer, actions[index].micro_batch};
        if (actions[index].kind == ActionKind::recv && !sent.contains(key)) break;
        if (actions[index].kind == ActionKind::send) sent.insert(key);
        visit(device, index);
      }
    }
  }
  return position;
}

}  // namespace sluice::parallel
