#pragma once
#include "build_config.h"
#include "core/device.h"
#include "core/where.h"

namespace sluice {

/// The one place that asks on which kind of device an op runs.
///
/// Adds the op's cost to the device's counters and calls `kernel(context)` with the backend's context (`Cpu&`). Kernels are overloads
/// on that context, so a forgotten kernel is a compile or link error. A meta device counts and runs nothing. Kernels allocate
/// nothing: results and scratch are Tensors made by the op, so that a meta device counts them too.
template <class Kernel>
void run_kernel(Device& device, const Cost& cost, const Kernel& kernel) {
  device.count(cost);
  if (device.kind() == DeviceKind::meta) return;
  kernel(device.cpu());
}

}  // namespace sluice
