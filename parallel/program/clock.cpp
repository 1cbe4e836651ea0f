#include "parallel/program/clock.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace sluice::parallel {

Clock::Clock(int devices, Links links) : devices_(devices), links_(std::move(links)) {
  require(devices > 0, "clock: needs at least one device, got ", devices);
  require(links_.of_device.empty() || std::ssize(links_.of_device) >= devices, "clock: needs the link of each of ", devices,
          " devices or one for all, got ", links_.of_device.size(), "; give all or none");
}

void Clock::compute(int device, double seconds) {
  devices_[device].now += seconds;
  devices_[device].busy += seconds;
}

void Clock::wait(int device, double until) { devices_[device].now = std::max(devices_[device].now, until); }

Clock::Transferred Clock::transfer(int from, int to, double earliest, double bytes, int sharing) {
  if (from == to) return {earliest, earliest};
  Channel& channel = this->channel(from, to);
  channel.free_at = std::max(channel.free_at, earliest) + sharing * channel.link.wire_seconds(bytes);
  return {channel.free_at, channel.free_at + channel.link.latency_seconds};
}

double Clock::seconds() const {
  return std::max_element(devices_.begin(), devices_.end(), [](const DeviceTime& a, const DeviceTime& b) { return a.now < b.now; })->now;
}

double Clock::bubble() const {
  const double total = seconds();
  if (total <= 0) return 0;
  double busy = 0;
  for (const DeviceTime& device : devices_) busy += device.busy;
  return 1 - busy / static_cast<double>(devices_.size()) / total;
}

Clock::Channel& Clock::channel(int from, int to) {
  auto& channels = devices_[from].channels;
  const auto found = channels.find(to);
  return found != channels.end() ? found->second : channels.emplace(to, Channel{links_.between(from, to)}).first->second;
}

}  // namespace sluice::parallel
