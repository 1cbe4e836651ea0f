#pragma once
#include <cuda_runtime.h>

#include "core/cuda/cuda.h"
#include "core/cuda/try.h"

namespace sluice {

/// Blocks of a launch, threads of a block, and bytes of dynamic shared memory of a block.
struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;
};

/// Waits for the launch when SLUICE_SYNC=1 is set. Errors  DeviceError naming the kernel.
void after_launch(Cuda& cuda, const char* kernel);

/// From now on the kernel may have as much dynamic shared memory on this GPU. Never less again: other devices of the GPU launch it too.
/// Threads  any. Errors  DeviceError.
void allow_shared_bytes(const Cuda& cuda, const void* kernel, size_t bytes);

/// Enqueues kernel(arguments...) on the device's stream; an empty grid enqueues nothing. `name` is for messages.
/// Errors  DeviceError when the launch is refused.
template <class... Parameters, class... Arguments>
void launch(Cuda& cuda, const char* name, const LaunchShape& shape, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  // Above 48 KiB a kernel has to ask for what is dynamic, and its static shared memory, at most 9 KiB of kernels that have both, counts too.
  if (shape.shared_bytes > size_t{32} << 10) allow_shared_bytes(cuda, reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = cuda.stream();
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  if (status != cudaSuccess) cuda_try(status, name);
  after_launch(cuda, name);
}

/// Blocks of `threads` for `items` that a kernel takes in a grid-stride loop: enough to fill the GPU, at most one for each `threads` items.
inline dim3 grid_for(const Cuda& cuda, int64_t items, int threads, int blocks_per_multiprocessor = 8) {
  const int64_t wanted = (items + threads - 1) / threads, most = int64_t{cuda.multiprocessors()} * blocks_per_multiprocessor;
  return dim3(static_cast<unsigned>(wanted < most ? wanted : most));
}

}  // namespace sluice
