#pragma once
// Stands in for the CUDA toolkit's header: g++ compiles kernels with it, and the host emulates the device (docs/design.md).
#define __CUDA_EMULATION__ 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
// One block runs at a time, so that its shared memory may be static; AddressSanitizer then watches its bounds.
#define __shared__ static

#include <functional>
#include <tuple>
#include <utility>

#include "cuda_runtime_api.h"
#include "device_functions.h"
#include "emulation.h"
#include "matrix_functions.h"
#include "warp_functions.h"

namespace sluice::emulation {
/// Checks and queues a launch; `thread` is what each thread of the grid does.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread);
}  // namespace sluice::emulation

/// The only way to launch. Arguments are copied now; every thread gets its own copies.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  return sluice::emulation::launch(
      *config, reinterpret_cast<const void*>(kernel),
      [kernel, copies = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] { std::apply(kernel, copies); });
}
