#include "bench/ladder/naive.h"
#include "bench/ladder/thread_each.h"
#include "core/cuda/kernel.h"

namespace sluice::ladder {

namespace {

/// A thread a row, three passes over it: neighbouring threads read addresses a row apart.
template <class T>
__global__ void softmax_of_row(const T* x, T* y, int64_t rows, int64_t n) {
  using C = compute_t<T>;
  const int64_t row = kernels::grid_index();
  if (row >= rows) return;
  x += row * n;
  y += row * n;
  C maximum = x[0], sum = 0;
  for (int64_t i = 1; i < n; ++i) maximum = kernels::larger(maximum, static_cast<C>(x[i]));
  for (int64_t i = 0; i < n; ++i) sum += ::exp(static_cast<C>(x[i]) - maximum);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(::exp(static_cast<C>(x[i]) - maximum) / sum);
}

}  // namespace

void softmax(Cuda& cuda, const Tensor& x, const Tensor& y) {
  const int64_t n = x.dim(-1), rows = x.elements() / n;
  on_float(x.dtype(), "softmax",
           [&]<class T>() { launch(cuda, "naive softmax", thread_each(rows), softmax_of_row<T>, x.data<T>(), y.data<T>(), rows, n); });
}

}  // namespace sluice::ladder
