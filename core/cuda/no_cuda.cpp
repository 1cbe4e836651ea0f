// Stands in for cuda.cpp and libraries.cpp in builds without CUDA.
#include "core/cuda/cuda.h"
#include "core/cuda/tuned.h"
#include "core/error.h"

namespace sluice {

std::string cuda_unavailable_reason() { return "this build has no CUDA backend; configure with -Dcuda=enabled"; }
int cuda_device_count() { return 0; }
bool has_choices_for(const GpuDescription&) { return false; }
std::string gpu_libraries() { return ""; }
GpuDescription describe_gpu(int) { throw UsageError("cuda: " + cuda_unavailable_reason()); }

}  // namespace sluice
