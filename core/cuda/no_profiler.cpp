// Stands in for profiler.cpp where there is no NVTX: builds without CUDA, and the emulation.
#include "core/profiler.h"

namespace sluice {

ProfilerRange::ProfilerRange(const Device&, const char*) : is_open_(false) {}
ProfilerRange::~ProfilerRange() = default;

}  // namespace sluice
