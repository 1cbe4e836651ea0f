#include "parallel/program/program_bytes.h"

#include <algorithm>

namespace sluice::parallel {

std::vector<int64_t> peak_bytes(const Program& program) {
  std::vector<int64_t> peaks(program.devices.size(), 0);
  for (std::size_t device = 0; device < peaks.size(); ++device)
    for (const Action& action : program.devices[device]) peaks[device] = std::max(peaks[device], action.peak_bytes);
  return peaks;
}

int64_t bytes_between_ranks(const Program& program, int devices_per_rank) {
  int64_t bytes = 0;
  for (const auto& actions : program.devices)
    for (const Action& action : actions) {
      if (action.kind != ActionKind::send) continue;
      const int from = program.sender(action.transfer) / devices_per_rank, to = program.receiver(action.transfer) / devices_per_rank;
      if (from != to) bytes += action.bytes;
    }
  return bytes;
}

}  // namespace sluice::parallel
