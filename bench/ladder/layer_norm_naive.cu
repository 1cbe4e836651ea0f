#include "bench/ladder/naive.h"
#include "bench/ladder/thread_each.h"
#include "core/cuda/kernel.h"

namespace sluice::ladder {

namespace {

template <class T, class C>
__global__ void normalize_row(const T* x, const T* gamma, const T* beta, C epsilon, T* y, C* means, C* rstds, int64_t rows, int64_t n) {
  const int64_t row = kernels::grid_index();
  if (row >= rows) return;
  x += row * n;
  C mean = 0, variance = 0;
  for (int64_t i = 0; i < n; ++i) mean += static_cast<C>(x[i]);
  mean /= static_cast<C>(n);
  for (int64_t i = 0; i < n; ++i) variance += (static_cast<C>(x[i]) - mean) * (static_cast<C>(x[i]) - mean);
  const C rstd = 1 / ::sqrt(variance / static_cast<C>(n) + epsilon);
  for (int64_t i = 0; i < n; ++i)
    y[row * n + i] = static_cast<T>((static_cast<C>(x[i]) - mean) * rstd * static_cast<C>(gamma[i]) + static_cast<C>(beta[i]));
  means[row] = mean;
  rstds[row] = rstd;
}

template <class T, class C>
__global__ void input_gradient_of_row(const T* dy, const T* x, const T* gamma, const C* means, const C* rstds, T* dx, int64_t rows,
                                      int64_t n) {
  const int64_t row = kernels::grid_index();
  if (row >= rows) return;
  const C mean = means[row], rstd = rstds[row];
  C sum = 0, sum_with_x = 0;
  for (int64_t i = row * n; i < (row + 1) * n; ++i) {
    const C g = static_cast<C>(dy[i]) * static_cast<C>(gamma[i - row * n]);
    sum += g;
    sum_with_x += g * (static_cast<C>(x[i]) - mean) * rstd;
  }
  for (int64_t i = row * n; i < (row + 1) * n; ++i) {
    const C g = static_cast<C>(dy[i]) * static_cast<C>(gamma[i - row * n]), normal = (static_cast<C>(x[i]) - mean) * rstd;
    dx[i] = static_cast<T>(rstd * (g - (sum + normal * sum_with_x) / static_cast<C>(n)));
  }
}

/// A thread a column: coalesced, but as few threads as a row has elements.
template <class T, class C>
__global__ void weight_gradients_of_column(const T* dy, const T* x, const C* means, const C* rstds, C* dgamma, C* dbeta, int64_t rows,
                                           int64_t n) {
  const int64_t column = kernels::grid_index();
  if (column >= n) return;
  C gamma_sum = 0, beta_sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const C g = static_cast<C>(dy[row * n + column]);
    gamma_sum += g * (static_cast<C>(x[row * n + column]) - means[row]) * rstds[row];
    beta_sum += g;
  }
  dgamma[column] = gamma_sum;
  dbeta[column] = beta_sum;
}

}  // namespace

void layer_norm(Cuda& cuda, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, const NormalizedRows& result) {
  const int64_t n = x.dim(-1), rows = x.elements() / n;
  on_float(x.dtype(), "layer_norm", [&]<class T>() {
    using C = compute_t<T>;
    launch(cuda, "naive layer_norm", thread_each(rows), normalize_row<T, C>, x.data<T>(), gamma.data<T>(), beta.data<T>(), epsilon,
           result.y.data<T>(), result.mean.data<C>(), result.rstd.data<C>(), rows, n);
  });
}

void layer_norm_backward(Cuda& cuda, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         const NormalizationGradients& gradients) {
  const int64_t n = x.dim(-1), rows = x.elements() / n;
  on_float(x.dtype(), "layer_norm_backward", [&]<class T>() {
    using C = compute_t<T>;
    launch(cuda, "naive layer_norm dx", thread_each(rows), input_gradient_of_row<T, C>, dy.data<T>(), x.data<T>(), gamma.data<T>(),
           mean.data<C>(), rstd.data<C>(), gradients.x.data<T>(), rows, n);
    launch(cuda, "naive layer_norm dgamma", thread_each(n), weight_gradients_of_column<T, C>, dy.data<T>(), x.data<T>(), mean.data<C>(),
           rstd.data<C>(), gradients.gamma.data<C>(), gradients.beta.data<C>(), rows, n);
  });
}

}  // namespace sluice::ladder
