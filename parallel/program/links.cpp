#include "parallel/program/links.h"

#include <algorithm>

namespace sluice::parallel {

Link slower(const Link& a, const Link& b) {
  const bool is_a = b.bytes_per_second <= 0 || (a.bytes_per_second > 0 && a.bytes_per_second < b.bytes_per_second);
  return {std::max(a.latency_seconds, b.latency_seconds), is_a ? a.bytes_per_second : b.bytes_per_second};
}

Link Links::between(int from, int to) const {
  const auto found = of_pair.find({from, to});
  if (found != of_pair.end()) return found->second;
  if (are_apart(from, to)) return slower(between_hosts[from], between_hosts[to]);
  return of_device.empty() ? all : slower(of_device[from], of_device[to]);
}

}  // namespace sluice::parallel
