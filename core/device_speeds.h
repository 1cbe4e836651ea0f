#pragma once
#include <vector>

#include "core/device.h"
#include "core/precision.h"

namespace sluice {

/// What a device can do at most, as a function of nothing but the device, so that what is planned with it is the same whenever it is planned:
/// by its description when it is a GPU, as declared on meta. A CPU device has 100 GFLOP/s a thread, whatever its processor, and 20 GB/s.
DeviceSpeed nominal_speed(const Device& device, Precision precision);
std::vector<DeviceSpeed> nominal_speeds_of(const std::vector<DevicePtr>& devices, Precision precision);

/// The same for predictions and the share of it that a training reaches: that of CPU devices is measured.
/// Cost  of CPU devices about 0.3 s of all their cores and 192 MiB, once a number of threads (measured_peak_flops, measured_bandwidth).
std::vector<DeviceSpeed> speeds_of(const std::vector<DevicePtr>& devices, Precision precision);

}  // namespace sluice
