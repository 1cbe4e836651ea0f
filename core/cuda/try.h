#pragma once
#include <cuda_runtime.h>

#include "core/error.h"

namespace sluice {

/// Throws with the text of the call that failed: ResourceError where memory is used up, else DeviceError. Errors of kernels come from a later
/// call than the launch: SLUICE_SYNC=1 helps.
inline void cuda_try(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is no kernel's would come again from the next call
  const std::string failure = join("cuda: ", call, " failed: ", cudaGetErrorName(status), ", ", cudaGetErrorString(status));
  if (status == cudaErrorMemoryAllocation)
    throw ResourceError(failure + "; end other programs on the GPU, or give its devices a smaller budget (pipeline.memory)");
  if (status == cudaErrorInvalidConfiguration)
    throw DeviceError(failure + ": the sizes of a call are beyond what the GPU launches; use smaller micro-batches");
  throw DeviceError(failure + "; run again with SLUICE_SYNC=1 to find the kernel");
}

}  // namespace sluice

/// The one macro of the backend: it keeps the text of the call.
#define CUDA_TRY(call) ::sluice::cuda_try(call, #call)
