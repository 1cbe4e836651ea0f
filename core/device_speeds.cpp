#include "core/device_speeds.h"

#include <algorithm>
#include <thread>

#include "core/device_description.h"
#include "core/gpu_speed.h"
#include "core/machine_limits.h"

namespace sluice {

namespace {

DeviceSpeed speed_of(const Device& device, Precision precision) {
  const DeviceSpeed& declared = device.options().speed;
  if (device.kind() == DeviceKind::meta) return declared;
  DeviceSpeed speed = declared;  // its link, when the config names one
  if (device.kind() == DeviceKind::cuda) {
    speed = gpu_speed(describe_gpu(device), precision);
  } else {
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    speed.flops_per_second = measured_peak_flops(std::min(cores, device.options().threads));
    speed.bytes_per_second = measured_bandwidth();
  }
  // Links that the config names; what it does not name is the usual, and a GPU knows better.
  if (const DeviceSpeed kUsual;
      declared.link_bytes_per_second != kUsual.link_bytes_per_second || declared.link_latency_seconds != kUsual.link_latency_seconds) {
    speed.link_bytes_per_second = declared.link_bytes_per_second;
    speed.link_latency_seconds = declared.link_latency_seconds;
  }
  speed.host_link_bytes_per_second = declared.host_link_bytes_per_second;
  speed.host_link_latency_seconds = declared.host_link_latency_seconds;
  return speed;
}

}  // namespace

std::vector<DeviceSpeed> speeds_of(const std::vector<DevicePtr>& devices, Precision precision) {
  std::vector<DeviceSpeed> speeds;
  for (size_t i = 0; i < devices.size(); ++i) {
    const bool as_before = i > 0 && devices[i]->kind() == DeviceKind::cpu && devices[i]->options().threads == devices[0]->options().threads;
    speeds.push_back(as_before ? speeds[0] : speed_of(*devices[i], precision));  // measuring takes time
  }
  return speeds;
}

}  // namespace sluice
