#include "bench/ladder/naive.h"
#include "bench/ladder/thread_each.h"
#include "core/cuda/kernel.h"
#include "core/ops/elementwise_rules.h"

namespace sluice::ladder {

namespace {

/// A thread an element, two bytes at a time for bf16.
template <class T>
__global__ void gelu_tanh_of_element(const T* x, T* y, int64_t count) {
  const int64_t i = kernels::grid_index();
  if (i < count) y[i] = static_cast<T>(rules::GeluTanh::value(kernels::Scalar<T>(static_cast<compute_t<T>>(x[i]))).value);
}

}  // namespace

void gelu_tanh(Cuda& cuda, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "gelu_tanh", [&]<class T>() {
    launch(cuda, "naive gelu_tanh", thread_each(x.elements()), gelu_tanh_of_element<T>, x.data<T>(), y.data<T>(), x.elements());
  });
}

}  // namespace sluice::ladder
