#pragma once
#include <map>
#include <utility>
#include <vector>

namespace sluice::parallel {

/// One direction between two devices. From NVLink ({2e-6, 450e9}) to a wide-area line of 1 Gbit/s ({0.05, 125e6}).
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = 0;  ///< 0 = infinitely fast

  /// How long the link is occupied; the latency comes on top and does not occupy it.
  double wire_seconds(double bytes) const { return bytes_per_second > 0 ? bytes / bytes_per_second : 0; }
  /// From the start of a transfer to its arrival.
  double seconds(double bytes) const { return wire_seconds(bytes) + latency_seconds; }
};

/// What passes between devices with different links takes the slower of both.
Link slower(const Link& a, const Link& b);

/// What the gradient's norm takes on the wire: every device sends a part to the first one, which sends the norm back.
struct NormBytes {
  double part = 0;  ///< sums of squares: a number for each parameter of the model
  double norm = 0;
};

/// What one tied parameter takes on the wire once a mini-batch: from each use on another stage than its owner's, and back to each such stage.
struct TiedBytes {
  double gradient = 0, weight = 0;
};

/// The links of a group of devices: one for all, or one of each device, and those of pairs that differ.
struct Links {
  Link all;
  std::map<std::pair<int, int>, Link> of_pair;  ///< by sending and receiving device
  std::vector<Link> of_device{};                ///< by device; may be empty
  std::vector<Link> between_hosts{};            ///< by device, to those of other hosts; where `host` is empty there are none
  std::vector<int> host{};                      ///< by device: the number of its host; may be empty

  Link between(int from, int to) const;
  /// Whether they are in different hosts.
  bool are_apart(int from, int to) const { return !host.empty() && host[from] != host[to]; }
};

}  // namespace sluice::parallel
