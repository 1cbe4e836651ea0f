#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/ops/ramp.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void ramp_elements(Ramp numbers, T* y) {
  for (int64_t i = grid_index(); i < numbers.count; i += grid_size()) y[i] = static_cast<T>(numbers.at(i));
}

}  // namespace

void ramp(Cuda& cuda, const Ramp& numbers, const Tensor& y) {
  on_any(y.dtype(), "ramp", [&]<class T>() {
    launch(cuda, "ramp", {grid_for(cuda, numbers.count, kThreads), kThreads}, ramp_elements<T>, numbers, y.data<T>());
  });
}

}  // namespace sluice::kernels
