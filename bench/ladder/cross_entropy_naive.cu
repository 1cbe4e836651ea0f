#include "bench/ladder/naive.h"
#include "bench/ladder/thread_each.h"
#include "core/cuda/kernel.h"

namespace sluice::ladder {

namespace {

/// log(sum exp) of a row by one thread in two passes.
template <class T, class C = compute_t<T>>
__device__ C log_sum_exp(const T* row, int64_t n) {
  C maximum = row[0], sum = 0;
  for (int64_t i = 1; i < n; ++i) maximum = kernels::larger(maximum, static_cast<C>(row[i]));
  for (int64_t i = 0; i < n; ++i) sum += ::exp(static_cast<C>(row[i]) - maximum);
  return maximum + ::log(sum);
}

template <class T, class C>
__global__ void loss_of_row(const T* logits, const int32_t* targets, C* losses, int64_t rows, int64_t n) {
  const int64_t row = kernels::grid_index();
  if (row >= rows) return;
  losses[row] = log_sum_exp(logits + row * n, n) - static_cast<C>(logits[row * n + targets[row]]);
}

template <class C>
__global__ void sum_by_one_thread(const C* losses, C* loss, int64_t rows) {
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) sum += losses[row];
  *loss = static_cast<C>(sum);
}

template <class T, class C>
__global__ void gradient_of_row(const T* logits, const int32_t* targets, T* dlogits, int64_t rows, int64_t n) {
  const int64_t row = kernels::grid_index();
  if (row >= rows) return;
  const C total = log_sum_exp(logits + row * n, n);
  for (int64_t i = 0; i < n; ++i) {
    const C p = ::exp(static_cast<C>(logits[row * n + i]) - total);
    dlogits[row * n + i] = static_cast<T>(i == targets[row] ? p - 1 : p);
  }
}

}  // namespace

void cross_entropy(Cuda& cuda, const Tensor& logits, const Tensor& targets, const Tensor& row_losses, const Tensor& loss) {
  const int64_t n = logits.dim(-1), rows = logits.elements() / n;
  on_float(logits.dtype(), "cross_entropy", [&]<class T>() {
    using C = compute_t<T>;
    launch(cuda, "naive cross_entropy", thread_each(rows), loss_of_row<T, C>, logits.data<T>(), targets.data<int32_t>(),
           row_losses.data<C>(), rows, n);
    launch(cuda, "naive sum", {dim3(1), dim3(1)}, sum_by_one_thread<C>, row_losses.data<C>(), loss.data<C>(), rows);
  });
}

void cross_entropy_backward(Cuda& cuda, const Tensor& logits, const Tensor& targets, const Tensor& dlogits) {
  const int64_t n = logits.dim(-1), rows = logits.elements() / n;
  on_float(logits.dtype(), "cross_entropy_backward", [&]<class T>() {
    launch(cuda, "naive cross_entropy_backward", thread_each(rows), gradient_of_row<T, compute_t<T>>, logits.data<T>(),
           targets.data<int32_t>(), dlogits.data<T>(), rows, n);
  });
}

}  // namespace sluice::ladder
