#include "core/device_speeds.h"

#include <algorithm>
#include <map>
#include <thread>

#include "core/device_description.h"
#include "core/gpu_speed.h"
#include "core/machine_limits.h"

namespace sluice {

namespace {

/// Of a core with AVX2 or AVX-512, which are between half and twice as fast.
constexpr double kFlopsOfThread = 1e11, kBytesPerSecond = 2e10;

/// Links as declared, where the config names them: a GPU knows better than what is usual.
DeviceSpeed speed_of_gpu(const Device& device, Precision precision) {
  const DeviceSpeed &declared = device.options().speed, kUsual{};
  DeviceSpeed speed = gpu_speed(describe_gpu(device), precision);
  if (declared.link_bytes_per_second != kUsual.link_bytes_per_second || declared.link_latency_seconds != kUsual.link_latency_seconds) {
    speed.link_bytes_per_second = declared.link_bytes_per_second;
    speed.link_latency_seconds = declared.link_latency_seconds;
  }
  speed.host_link_bytes_per_second = declared.host_link_bytes_per_second;
  speed.host_link_latency_seconds = declared.host_link_latency_seconds;
  return speed;
}

struct CoreSpeed {
  double flops, bytes;  ///< per second
};

CoreSpeed measured_speed(int threads) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return {measured_peak_flops(std::min(cores, threads)), measured_bandwidth()};
}

}  // namespace

DeviceSpeed nominal_speed(const Device& device, Precision precision) {
  if (device.kind() == DeviceKind::cuda) return speed_of_gpu(device, precision);
  DeviceSpeed speed = device.options().speed;
  if (device.kind() == DeviceKind::meta) return speed;
  speed.flops_per_second = kFlopsOfThread * device.options().threads;
  speed.bytes_per_second = kBytesPerSecond;
  return speed;
}

std::vector<DeviceSpeed> nominal_speeds_of(const std::vector<DevicePtr>& devices, Precision precision) {
  std::vector<DeviceSpeed> speeds;
  for (const auto& device : devices) speeds.push_back(nominal_speed(*device, precision));
  return speeds;
}

std::vector<DeviceSpeed> speeds_of(const std::vector<DevicePtr>& devices, Precision precision) {
  std::map<int, CoreSpeed> measured;  // by threads
  std::vector<DeviceSpeed> speeds = nominal_speeds_of(devices, precision);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i]->kind() != DeviceKind::cpu) continue;
    const int threads = devices[i]->options().threads;
    if (!measured.contains(threads)) measured.emplace(threads, measured_speed(threads));
    speeds[i].flops_per_second = measured.at(threads).flops;
    speeds[i].bytes_per_second = measured.at(threads).bytes;
  }
  return speeds;
}

}  // namespace sluice
