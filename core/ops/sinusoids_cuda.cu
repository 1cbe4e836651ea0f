#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/ops/sinusoids.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void fill_sinusoids(T* y, int64_t elements, SinusoidTable table) {
  const int64_t at = grid_index();
  if (at >= elements) return;
  const int64_t half = (table.width + 1) / 2, column = at % table.width, i = column % half;
  const double angle =
      static_cast<double>(table.first + at / table.width) * ::pow(table.base, -static_cast<double>(i) / static_cast<double>(half));
  y[at] = static_cast<T>(column < half ? ::sin(angle) : ::cos(angle));
}

}  // namespace

void sinusoids(Cuda& cuda, const SinusoidTable& table, const Tensor& y) {
  const dim3 blocks(static_cast<unsigned>((y.elements() + kThreads - 1) / kThreads));
  on_float(y.dtype(), "sinusoids", [&]<class T>() {
    launch(cuda, "sinusoids", {blocks, kThreads}, fill_sinusoids<T>, y.data<T>(), y.elements(), table);
  });
}

}  // namespace sluice::kernels
