#include "core/cuda/event.h"

#include <cuda_runtime.h>

#include "core/cuda/try.h"

namespace sluice {

CudaEvent::CudaEvent(int index, CUstream_st* stream, bool with_time) {
  CUDA_TRY(cudaSetDevice(index));
  CUDA_TRY(cudaEventCreateWithFlags(&event_, with_time ? cudaEventDefault : cudaEventDisableTiming));
  if (const cudaError_t status = cudaEventRecord(event_, stream); status != cudaSuccess) {
    cudaEventDestroy(event_);
    cuda_try(status, "cudaEventRecord");
  }
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

/// A failure counts as passed: whoever synchronizes the device next reports it.
bool CudaEvent::has_passed() const {
  if (cudaEventQuery(event_) != cudaErrorNotReady) return true;
  cudaGetLastError();
  return false;
}

void CudaEvent::wait() const { CUDA_TRY(cudaEventSynchronize(event_)); }

double CudaEvent::seconds_since(const CudaEvent& earlier) const {
  float milliseconds = 0;
  CUDA_TRY(cudaEventElapsedTime(&milliseconds, earlier.event_, event_));
  return milliseconds / 1e3;
}

}  // namespace sluice
