#pragma once
#include <map>
#include <utility>

namespace sluice::parallel {

/// One direction between two devices. From NVLink ({2e-6, 450e9}) to a wide-area line of 1 Gbit/s ({0.05, 125e6}).
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;  ///< 0 = infinitely fast

  /// How long the link is occupied; the latency comes on top and does not occupy it.
  double wire_seconds(double bytes) const { return bytes_per_second > 0 ? bytes / bytes_per_second : 0; }
};

/// The links of a group of devices: one for all, and those that differ.
struct Links {
  Link all;
  std::map<std::pair<int, int>, Link> of_pair;  ///< by sending and receiving device

  const Link& between(int from, int to) const {
    const auto found = of_pair.find({from, to});
    return found == of_pair.end() ? all : found->second;
  }
};

}  // namespace sluice::parallel
