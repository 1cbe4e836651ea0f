#pragma once
#include <array>
#include <map>
#include <utility>

#include "parallel/program/links.h"
#include "parallel/program/program.h"

namespace sluice::parallel {

/// How many transfers share a device's link. What replicas exchange at the end of a step goes from every one of them to every other at once,
/// and a device has one link to its host and one to other hosts, whatever the number of channels: each transfer gets its part of it.
/// Threads  one.
class LinkSharing {
 public:
  /// Program and links live as long as this.
  LinkSharing(const Program& program, const Links& links) : program_(program), links_(links) {}
  /// 1 for what has the link to itself.
  int of(const Transfer& transfer);

 private:
  using Receivers = std::array<int, 2>;  ///< in the sender's host, and in others
  Receivers receivers(int from, int to) const;

  const Program& program_;
  const Links& links_;
  std::map<std::pair<int, int>, Receivers> known_;  ///< by sending stage, and the receiving one's number in its replica
};

}  // namespace sluice::parallel
