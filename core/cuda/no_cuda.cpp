// Stands in for cuda.cpp in builds without CUDA.
#include "core/cuda/cuda.h"
#include "core/cuda/tuned.h"
#include "core/error.h"

namespace sluice {

std::string cuda_unavailable_reason() { return "this build has no CUDA backend; configure with -Dcuda=enabled"; }
int cuda_device_count() { return 0; }
std::string tuned_algorithms(const GpuDescription&) { return ""; }
bool wants_trials() { return false; }
GpuDescription describe_gpu(int) { throw UsageError("cuda: " + cuda_unavailable_reason()); }

}  // namespace sluice
