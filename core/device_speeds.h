#pragma once
#include <vector>

#include "core/device.h"
#include "core/precision.h"

namespace sluice {

/// What each of these devices can do at most, for predictions and the share of it that a training reaches: measured when they are CPU
/// devices, by their description when GPUs, as declared on meta.
/// Cost  of CPU devices about 0.3 s of all their cores and 192 MiB, once a number of threads (measured_peak_flops, measured_bandwidth).
std::vector<DeviceSpeed> speeds_of(const std::vector<DevicePtr>& devices, Precision precision);

}  // namespace sluice
