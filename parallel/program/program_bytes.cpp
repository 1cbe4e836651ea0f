#include "parallel/program/program_bytes.h"

#include <algorithm>
#include <numeric>

namespace sluice::parallel {

std::vector<int64_t> peak_bytes(const Program& program) {
  std::vector<int64_t> peaks(program.devices.size(), 0);
  for (std::size_t device = 0; device < peaks.size(); ++device)
    for (const Action& action : program.devices[device]) peaks[device] = std::max(peaks[device], action.peak_bytes);
  return peaks;
}

std::vector<int64_t> sent_bytes(const Program& program, int devices_per_rank) {
  std::vector<int64_t> bytes(program.devices.size(), 0);
  for (std::size_t device = 0; device < bytes.size(); ++device)
    for (const Action& action : program.devices[device]) {
      if (action.kind != ActionKind::send) continue;
      const int from = program.sender(action.transfer) / devices_per_rank, to = program.receiver(action.transfer) / devices_per_rank;
      if (from != to) bytes[device] += action.bytes;
    }
  return bytes;
}

int64_t bytes_between_ranks(const Program& program, int devices_per_rank) {
  const auto bytes = sent_bytes(program, devices_per_rank);
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

}  // namespace sluice::parallel
