#pragma once
#include <cuda_runtime.h>

#include "core/error.h"

namespace sluice {

/// Throws DeviceError with the text of the call that failed. Errors of kernels come from a later call than the launch: SLUICE_SYNC=1 helps.
inline void cuda_try(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is no kernel's would come again from the next call
  throw DeviceError(join("cuda: ", call, " failed: ", cudaGetErrorName(status), ", ", cudaGetErrorString(status),
                         "; run again with SLUICE_SYNC=1 to find the kernel"));
}

}  // namespace sluice

/// The one macro of the backend: it keeps the text of the call.
#define CUDA_TRY(call) ::sluice::cuda_try(call, #call)
