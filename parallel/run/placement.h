#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::layers {
class Graph;
}

namespace sluice::parallel {

class Executor;

/// Bytes of a parameter's copy, or of running statistics, on a device, as the device counts them. Only owners have optimizer states, which
/// the moving averages count as.
struct Placement {
  std::string name;
  int device;
  int64_t value_bytes;  ///< of the master and the working copy, as far as they are there
  int64_t gradient_bytes, state_bytes;
};

/// Of every copy on every device.
std::vector<Placement> placements(const layers::Graph& graph, const Executor& executor);

}  // namespace sluice::parallel
