#pragma once
#include <vector>

#include "core/device.h"
#include "parallel/program/links.h"

namespace sluice::parallel {

/// The links between devices of these speeds, where they are.
Links links_of(const std::vector<DevicePtr>& devices, const std::vector<DeviceSpeed>& speeds);

}  // namespace sluice::parallel
