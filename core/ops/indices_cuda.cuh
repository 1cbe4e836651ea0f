#pragma once
#include <cuda_runtime.h>

// Integers that data brings: read whatever their dtype, and kept as a fault where they are out of range.
#include "core/cuda/cuda.h"
#include "core/cuda/kernel.h"
#include "core/tensor.h"

namespace sluice::kernels {

/// An index tensor. Its dtype is looked at for each element, so that kernels are not compiled once for each.
struct Indices {
  explicit Indices(const Tensor& x) : data(x.data()), dtype(x.dtype()) {}
  __device__ int64_t operator[](int64_t i) const {
    if (dtype == DType::i64) return static_cast<const int64_t*>(data)[i];
    if (dtype == DType::i32) return static_cast<const int32_t*>(data)[i];
    return static_cast<const uint8_t*>(data)[i];
  }

  const void* data;
  DType dtype;
};

/// Keeps a bad index for Cuda::synchronize; of several the one at the least position, and the limit that it passed: launches have several.
__device__ inline void keep_fault(Cuda::Faults* faults, Cuda::FaultKind kind, int64_t position, int64_t value, int64_t limit) {
  const int at = static_cast<int>(kind);
  const auto found = static_cast<unsigned long long>(position) << 32 | static_cast<uint32_t>(value);
  if (found < atomicMin(&faults->first[at], found)) faults->limit[at] = limit;
}

}  // namespace sluice::kernels
