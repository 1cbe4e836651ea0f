#include "parallel/run/device_links.h"

namespace sluice::parallel {

namespace {

Link host_link_of(const DeviceSpeed& speed) {
  if (speed.host_link_bytes_per_second > 0) return {speed.host_link_latency_seconds, speed.host_link_bytes_per_second};
  return {speed.link_latency_seconds, speed.link_bytes_per_second};
}

}  // namespace

Links links_of(const std::vector<DevicePtr>& devices, const std::vector<DeviceSpeed>& speeds) {
  Links links;
  for (size_t device = 0; device < devices.size(); ++device) {
    links.of_device.push_back({speeds[device].link_latency_seconds, speeds[device].link_bytes_per_second});
    links.between_hosts.push_back(host_link_of(speeds[device]));
    links.host.push_back(devices[device]->options().host);
  }
  return links;
}

}  // namespace sluice::parallel
