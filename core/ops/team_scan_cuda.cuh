#pragma once
#include "core/cuda/kernel.h"

namespace sluice::kernels {

/// The sum of the values of the threads of a team before the calling one; `total`: of all. Of a block of teams as team_combine.
template <class S>
__device__ S sum_before_thread(S value, S& total) {
  __shared__ S of_warp[kWarpSize];
  const int warps = blockDim.x / kWarpSize, warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize, first = threadIdx.y * warps;
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const S before = __shfl_up_sync(kWholeWarp, value, distance);
    if (lane >= distance) value += before;
  }
  const S next_lower = __shfl_up_sync(kWholeWarp, value, 1), in_warp = lane == 0 ? S(0) : next_lower;
  if (lane == kWarpSize - 1) of_warp[first + warp] = value;
  __syncthreads();
  S before = 0;
  total = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) before = total;
    total += of_warp[first + w];
  }
  __syncthreads();
  return before + in_warp;
}

}  // namespace sluice::kernels
