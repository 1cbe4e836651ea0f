#include "core/ops/batch_norm.h"
#include "core/ops/columns_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kRowsInFlight = 4, kRowPairsInFlight = 2;  // loaded by a thread before the first is used

template <class T, class C = compute_t<T>>
struct Norm {
  explicit Norm(const ChannelNorm& norm)
      : gamma(norm.gamma.data<T>()),
        beta(norm.beta.data<T>()),
        mean(norm.mean.data<C>()),
        variance(norm.variance.data<C>()),
        epsilon(static_cast<C>(norm.epsilon)),
        relu(norm.relu) {}
  __device__ C rstd(int64_t column) const { return 1 / ::sqrt(variance[column] + epsilon); }

  const T *gamma, *beta;
  const C *mean, *variance;
  C epsilon;
  bool relu;
};

/// The norm of a thread's columns.
template <class T, int kWidth>
struct ColumnNorm {
  using C = compute_t<T>;

  __device__ ColumnNorm(const Norm<T>& norm, const ColumnBlocks<kWidth>& blocks) : relu(norm.relu) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const int64_t column = blocks.column() + i;
      const bool exists = column < blocks.columns();
      mean[i] = exists ? norm.mean[column] : C(0);
      scale[i] = exists ? static_cast<C>(norm.gamma[column]) * norm.rstd(column) : C(0);
      beta[i] = exists ? static_cast<C>(norm.beta[column]) : C(0);
    }
  }
  /// Of an element less its mean, before ReLU.
  __device__ C value(int i, C difference) const { return difference * scale[i] + beta[i]; }
  /// The gradient of that.
  __device__ C gradient(int i, T dy, C difference) const { return relu && !(value(i, difference) > 0) ? C(0) : static_cast<C>(dy); }

  bool relu;
  C mean[kWidth], scale[kWidth], beta[kWidth];
};

/// sums [2, chunks, columns]: of differences to the chunk's first row, and of their squares.
template <class T, int kWidth>
__global__ void __launch_bounds__(ColumnBlocks<kWidth>::kThreads)
    moments_of_chunks(const T* x, compute_t<T>* sums, int64_t chunks, ColumnBlocks<kWidth> blocks) {
  using C = compute_t<T>;
  const Run<kWidth, T> origin = blocks.load(x, blocks.first_row() - threadIdx.y);
  C sum[kWidth] = {}, squares[kWidth] = {};
  for (int64_t row = blocks.first_row(); blocks.has(row); row += kRowsInFlight * blockDim.y) {
    Run<kWidth, T> part[kRowsInFlight];
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) part[k] = blocks.load(x, row + k * blockDim.y);
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (!blocks.has(row + k * blockDim.y)) break;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const C difference = static_cast<C>(part[k].at[i]) - static_cast<C>(origin.at[i]);
        sum[i] += difference;
        squares[i] += difference * difference;
      }
    }
  }
  store_column_sums(blocks, sum, sums);
  __syncthreads();
  store_column_sums(blocks, squares, sums + chunks * blocks.columns());
}

constexpr int kPoolColumns = 32, kPoolRows = 32;

/// The sum over the rows of a block [kPoolColumns, kPoolRows], in all of them.
__device__ double sum_of_rows(double value) {
  __shared__ double of_row[kPoolRows][kPoolColumns];
  of_row[threadIdx.y][threadIdx.x] = value;
  for (int height = kPoolRows / 2; height > 0; height /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.y) < height) of_row[threadIdx.y][threadIdx.x] += of_row[threadIdx.y + height][threadIdx.x];
  }
  __syncthreads();
  value = of_row[0][threadIdx.x];
  __syncthreads();
  return value;
}

/// What moments_of_chunks gave, put together. Every kPoolRows-th chunk is the same thread's.
template <class T>
__global__ void __launch_bounds__(kPoolColumns* kPoolRows)
    pool_moments(const T* x, const compute_t<T>* sums, compute_t<T>* mean, compute_t<T>* variance, int64_t chunks, int64_t chunk_rows,
                 int64_t rows, int64_t columns) {
  using C = compute_t<T>;
  const int64_t column = int64_t{blockIdx.x} * kPoolColumns + threadIdx.x, first = column < columns ? threadIdx.y : chunks;
  const auto origin = [&](int64_t chunk) { return static_cast<double>(static_cast<C>(x[chunk * chunk_rows * columns + column])); };
  const auto count = [&](int64_t chunk) { return static_cast<double>(min(chunk_rows, rows - chunk * chunk_rows)); };
  double total = 0, squares = 0;
#pragma unroll 2
  for (int64_t chunk = first; chunk < chunks; chunk += kPoolRows) total += count(chunk) * origin(chunk) + sums[chunk * columns + column];
  const double center = sum_of_rows(total) / static_cast<double>(rows);
#pragma unroll 2
  for (int64_t chunk = first; chunk < chunks; chunk += kPoolRows) {
    const double shift = origin(chunk) - center, sum = sums[chunk * columns + column];
    squares += sums[(chunks + chunk) * columns + column] + shift * (2 * sum + shift * count(chunk));
  }
  squares = sum_of_rows(squares);
  if (threadIdx.y > 0 || column >= columns) return;
  mean[column] = static_cast<C>(center);
  variance[column] = static_cast<C>(squares < 0 ? 0 : squares / static_cast<double>(rows));
}

template <class T, int kWidth>
__global__ void __launch_bounds__(ColumnBlocks<kWidth>::kThreads)
    normalize_columns(const T* x, T* y, Norm<T> norm, ColumnBlocks<kWidth> blocks) {
  using C = compute_t<T>;
  const ColumnNorm<T, kWidth> columns(norm, blocks);
  for (int64_t row = blocks.first_row(); blocks.has(row); row += kRowsInFlight * blockDim.y) {
    Run<kWidth, T> part[kRowsInFlight];
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) part[k] = blocks.load(x, row + k * blockDim.y);
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) {
      if (!blocks.has(row + k * blockDim.y)) break;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const C value = columns.value(i, static_cast<C>(part[k].at[i]) - columns.mean[i]);
        part[k].at[i] = static_cast<T>(columns.relu && value < 0 ? C(0) : value);  // keeps NaN
      }
      blocks.store(y, row + k * blockDim.y, part[k]);
    }
  }
}

/// Calls f(row, dy, x) for each of the thread's rows.
template <class T, int kWidth, class F>
__device__ void each_row(const ColumnBlocks<kWidth>& blocks, const T* dy, const T* x, F f) {
  for (int64_t row = blocks.first_row(); blocks.has(row); row += kRowPairsInFlight * blockDim.y) {
    Run<kWidth, T> gradient[kRowPairsInFlight], part[kRowPairsInFlight];
#pragma unroll
    for (int k = 0; k < kRowPairsInFlight; ++k) {
      gradient[k] = blocks.load(dy, row + k * blockDim.y);
      part[k] = blocks.load(x, row + k * blockDim.y);
    }
#pragma unroll
    for (int k = 0; k < kRowPairsInFlight; ++k)
      if (blocks.has(row + k * blockDim.y)) f(row + k * blockDim.y, gradient[k], part[k]);
  }
}

/// sums [2, chunks, columns]: of gradients, and of gradients times what x differs from its mean.
template <class T, int kWidth>
__global__ void __launch_bounds__(ColumnBlocks<kWidth>::kThreads)
    gradient_sums(const T* dy, const T* x, compute_t<T>* sums, int64_t chunks, Norm<T> norm, ColumnBlocks<kWidth> blocks) {
  using C = compute_t<T>;
  const ColumnNorm<T, kWidth> columns(norm, blocks);
  C first[kWidth] = {}, second[kWidth] = {};
  each_row(blocks, dy, x, [&](int64_t, const Run<kWidth, T>& gradient, const Run<kWidth, T>& part) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const C difference = static_cast<C>(part.at[i]) - columns.mean[i], g = columns.gradient(i, gradient.at[i], difference);
      first[i] += g;
      second[i] += g * difference;
    }
  });
  store_column_sums(blocks, first, sums);
  __syncthreads();
  store_column_sums(blocks, second, sums + chunks * blocks.columns());
}

/// What gradient_sums gave, put together as in pool_moments.
template <class T>
__global__ void __launch_bounds__(kPoolColumns* kPoolRows)
    pool_gradients(const compute_t<T>* sums, compute_t<T>* dgamma, compute_t<T>* dbeta, int64_t chunks, Norm<T> norm, int64_t columns) {
  using C = compute_t<T>;
  const int64_t column = int64_t{blockIdx.x} * kPoolColumns + threadIdx.x;
  double first = 0, second = 0;
#pragma unroll 4
  for (int64_t chunk = column < columns ? threadIdx.y : chunks; chunk < chunks; chunk += kPoolRows) {
    first += sums[chunk * columns + column];
    second += sums[(chunks + chunk) * columns + column];
  }
  first = sum_of_rows(first);
  second = sum_of_rows(second);
  if (threadIdx.y > 0 || column >= columns) return;
  dbeta[column] = static_cast<C>(first);
  dgamma[column] = static_cast<C>(second * static_cast<double>(norm.rstd(column)));
}

/// Null dgamma and dbeta: the moments are constant.
template <class T, int kWidth>
__global__ void __launch_bounds__(ColumnBlocks<kWidth>::kThreads)
    input_gradient(const T* dy, const T* x, const compute_t<T>* dgamma, const compute_t<T>* dbeta, T* dx, int64_t rows, Norm<T> norm,
                   ColumnBlocks<kWidth> blocks) {
  using C = compute_t<T>;
  const ColumnNorm<T, kWidth> columns(norm, blocks);
  C offset[kWidth] = {}, slope[kWidth] = {};
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const int64_t column = blocks.column() + i;
    if (!dgamma || column >= blocks.columns()) continue;
    offset[i] = dbeta[column] / static_cast<C>(rows);
    slope[i] = dgamma[column] * norm.rstd(column) / static_cast<C>(rows);
  }
  each_row(blocks, dy, x, [&](int64_t row, const Run<kWidth, T>& gradient, const Run<kWidth, T>& part) {
    Run<kWidth, T> result;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const C difference = static_cast<C>(part.at[i]) - columns.mean[i], g = columns.gradient(i, gradient.at[i], difference);
      result.at[i] = static_cast<T>(columns.scale[i] * (g - offset[i] - difference * slope[i]));
    }
    blocks.store(dx, row, result);
  });
}

int64_t rows_of(const Tensor& x) { return x.shape().elements_before(-1); }

/// Calls f(blocks) with the widest ColumnBlocks that the matrices [rows, columns] allow.
template <class T, class F, class... Matrices>
void on_blocks(const Tensor& x, int64_t rows_per_chunk, const F& f, const Matrices*... matrices) {
  const int64_t rows = rows_of(x), columns = x.dim(-1);
  if (packs_fit<T>(columns, matrices...)) return f(ColumnBlocks<Pack<T>::kCount>(rows, columns, rows_per_chunk));
  f(ColumnBlocks<1>(rows, columns, rows_per_chunk));
}

LaunchShape pool_shape(int64_t columns) {
  return {dim3(static_cast<unsigned>((columns + kPoolColumns - 1) / kPoolColumns)), dim3(kPoolColumns, kPoolRows)};
}

}  // namespace

void batch_moments(Cuda& cuda, const Tensor& x, int64_t rows_per_chunk, const Tensor& chunk_sums, const Tensor& mean,
                   const Tensor& variance) {
  const int64_t chunks = chunk_sums.dim(1), columns = x.dim(-1);
  on_float(x.dtype(), "batch_norm", [&]<class T>() {
    using C = compute_t<T>;
    const T* from = x.data<T>();
    C* sums = chunk_sums.data<C>();
    const auto run = [&]<int kWidth>(const ColumnBlocks<kWidth>& blocks) {
      launch(cuda, "batch_moments", blocks.shape(), moments_of_chunks<T, kWidth>, from, sums, chunks, blocks);
    };
    on_blocks<T>(x, rows_per_chunk, run, from);
    launch(cuda, "pool_moments", pool_shape(columns), pool_moments<T>, from, sums, mean.data<C>(), variance.data<C>(), chunks,
           rows_per_chunk, rows_of(x), columns);
  });
}

void normalize_channels(Cuda& cuda, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk, const Tensor& y) {
  on_float(x.dtype(), "batch_norm", [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    const auto run = [&]<int kWidth>(const ColumnBlocks<kWidth>& blocks) {
      launch(cuda, "normalize_channels", blocks.shape(), normalize_columns<T, kWidth>, from, to, Norm<T>(norm), blocks);
    };
    on_blocks<T>(x, rows_per_chunk, run, from, to);
  });
}

void batch_norm_weight_gradients(Cuda& cuda, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                                 const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta) {
  const int64_t chunks = chunk_sums.dim(1), columns = x.dim(-1);
  on_float(x.dtype(), "batch_norm_backward", [&]<class T>() {
    using C = compute_t<T>;
    const T *from = x.data<T>(), *gradient = dy.data<T>();
    C* sums = chunk_sums.data<C>();
    const auto run = [&]<int kWidth>(const ColumnBlocks<kWidth>& blocks) {
      launch(cuda, "batch_norm_sums", blocks.shape(), gradient_sums<T, kWidth>, gradient, from, sums, chunks, Norm<T>(norm), blocks);
    };
    on_blocks<T>(x, rows_per_chunk, run, from, gradient);
    launch(cuda, "pool_gradients", pool_shape(columns), pool_gradients<T>, sums, dgamma.data<C>(), dbeta.data<C>(), chunks, Norm<T>(norm),
           columns);
  });
}

void batch_norm_input_gradient(Cuda& cuda, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                               const Tensor& dgamma, const Tensor& dbeta, const Tensor& dx) {
  on_float(x.dtype(), "batch_norm_backward", [&]<class T>() {
    using C = compute_t<T>;
    const T *from = x.data<T>(), *gradient = dy.data<T>();
    T* to = dx.data<T>();
    const C *of_gamma = dgamma.defined() ? dgamma.data<C>() : nullptr, *of_beta = dbeta.defined() ? dbeta.data<C>() : nullptr;
    const auto run = [&]<int kWidth>(const ColumnBlocks<kWidth>& blocks) {
      launch(cuda, "batch_norm_backward", blocks.shape(), input_gradient<T, kWidth>, gradient, from, of_gamma, of_beta, to, rows_of(x),
             Norm<T>(norm), blocks);
    };
    on_blocks<T>(x, rows_per_chunk, run, from, gradient, to);
  });
}

}  // namespace sluice::kernels
