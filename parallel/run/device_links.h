#pragma once
#include <vector>

#include "core/device.h"
#include "parallel/program/links.h"

namespace sluice::parallel {

/// The links between devices, where they are, at the speeds that they were given.
Links links_of(const std::vector<DevicePtr>& devices);
/// At other speeds, by device.
Links links_of(const std::vector<DevicePtr>& devices, const std::vector<DeviceSpeed>& speeds);

}  // namespace sluice::parallel
