#include "parallel/program/program_bytes.h"

#include <algorithm>

namespace sluice::parallel {

std::vector<int64_t> peak_bytes(const Program& program) {
  std::vector<int64_t> peaks(program.devices.size(), 0);
  for (std::size_t device = 0; device < peaks.size(); ++device)
    for (const Action& action : program.devices[device]) peaks[device] = std::max(peaks[device], action.peak_bytes);
  return peaks;
}

}  // namespace sluice::parallel
