#include "core/profiler.h"

#include <nvtx3/nvToolsExt.h>

namespace sluice {

ProfilerRange::ProfilerRange(const Device& device, const char* name) : is_open_(device.kind() == DeviceKind::cuda) {
  if (is_open_) nvtxRangePushA(name);
}

ProfilerRange::~ProfilerRange() {
  if (is_open_) nvtxRangePop();
}

}  // namespace sluice
