#pragma once
#include <vector>

#include "core/device.h"
#include "parallel/program/links.h"

namespace sluice::parallel {

/// The links between devices of these speeds.
inline Links links_of(const std::vector<DeviceSpeed>& speeds) {
  Links links;
  for (const DeviceSpeed& speed : speeds) links.of_device.push_back({speed.link_latency_seconds, speed.link_bytes_per_second});
  return links;
}

/// The links between devices of the speeds that they were given.
inline Links links_of(const std::vector<DevicePtr>& devices) {
  std::vector<DeviceSpeed> speeds;
  for (const auto& device : devices) speeds.push_back(device->options().speed);
  return links_of(speeds);
}

}  // namespace sluice::parallel
