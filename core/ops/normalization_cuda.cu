#include "core/ops/gradient_sum_cuda.cuh"
#include "core/ops/normalization.h"
#include "core/ops/rows_ahead_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kForwardPacks = 4;       // held by a thread
constexpr int kBackwardElements = 16;  // of dy and of x held by a thread, beside as many sums of dgamma and dbeta
constexpr int kSmallBlock = 256;       // threads of a block that reads ahead, where its rows are not longer
constexpr int kSmallBlocks = gradient_blocks(DType::bf16);

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

/// Null beta and mean: rms_norm. residual and sum may be null.
template <class T, class C = compute_t<T>>
struct Forward {
  const T *x, *residual, *gamma, *beta;
  C epsilon;
  T *sum, *y;
  C *mean, *rstd;
  int64_t rows;
  int columns;
  bool packed;
};

/// row += residual, also in memory.
template <class T, int kPacks>
__device__ void add_residual(const Forward<T>& to, int64_t offset, Row<T, kPacks>& row) {
  const int n = row.elements();
  Row<T, kPacks> residual(to.residual + offset, n, to.packed);
  each_pack(
      [&](int k, int at, const Pack<T>& x, const Pack<T>& added) {
        Pack<T> sum;
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j) sum.at[j] = rounded_sum(x.at[j], added.at[j]);
        write_pack(to.sum + offset, at, n, to.packed, sum);
        row.replace(k, sum);
      },
      row, residual);
  row.moved_to(to.sum + offset);
}

template <class T, int kPacks>
__global__ void __launch_bounds__(kMostRowThreads, 1) normalize_rows(Forward<T> to) {
  using C = compute_t<T>;
  constexpr int kCount = Pack<T>::kCount;
  const int64_t at_row = team_row(), offset = at_row * to.columns;
  const int n = at_row < to.rows ? to.columns : 0;
  Row<T, kPacks> row(to.x + offset, n, to.packed);
  if (to.residual) add_residual(to, offset, row);
  const bool centered = to.beta != nullptr;
  C first = 0;  // differences from the first element keep the digits of rows with a large mean
  if (n > 0 && centered) first = to.residual ? rounded_sum(to.x[offset], to.residual[offset]) : to.x[offset];
  C mean = 0;
  if (centered) {
    each_pack(
        [&](int, int at, const Pack<T>& pack) {
#pragma unroll
          for (int j = 0; j < kCount; ++j) mean += at + j < n ? static_cast<C>(pack.at[j]) - first : C(0);
        },
        row);
    mean = first + team_sum(mean) / static_cast<C>(to.columns);
  }
  C squares = 0;
  each_pack(
      [&](int, int at, const Pack<T>& pack) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          const C difference = at + j < n ? static_cast<C>(pack.at[j]) - mean : C(0);
          squares += difference * difference;
        }
      },
      row);
  const C rstd = 1 / ::sqrt(team_sum(squares) / static_cast<C>(to.columns) + to.epsilon);
  if (n > 0 && threadIdx.x == 0) {
    if (centered) to.mean[at_row] = mean;
    to.rstd[at_row] = rstd;
  }
  each_pack(
      [&](int, int at, const Pack<T>& pack) {
        const Pack<T> gamma = read_pack(to.gamma, at, n, to.packed);
        const Pack<T> beta = centered ? read_pack(to.beta, at, n, to.packed) : Pack<T>{};
        Pack<T> result;
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          const C scaled = (static_cast<C>(pack.at[j]) - mean) * rstd * static_cast<C>(gamma.at[j]);
          result.at[j] = static_cast<T>(centered ? scaled + static_cast<C>(beta.at[j]) : scaled);
        }
        write_pack(to.y + offset, at, n, to.packed, result);
      },
      row);
}

/// Null mean: rms_norm. sum, dx or sums are null where not asked for.
template <class T, class C = compute_t<T>>
struct Backward {
  const T *dy, *x, *gamma, *sum;
  const C *mean, *rstd;
  T* dx;
  C* sums;
  int64_t rows, rows_per_chunk;
  int columns;
  bool packed;
};

/// A row of dy, one of x and, where it is asked for, one of the sum.
template <class T, int kPacks>
struct ReadRows {
  template <class F>
  __device__ void each(const F& f) {
    each_pack(f, gradients, values);
  }
  __device__ Pack<T> sum_at(int, int at) const { return read_pack(sum, at, gradients.elements(), packed); }

  Row<T, kPacks> gradients, values;
  const T* sum;
  bool packed;
};
template <class T, int kPacks>
struct FetchedRows {
  template <class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) f(k, rows.position(k), rows.pack(0, k), rows.pack(1, k));
  }
  __device__ Pack<T> sum_at(int k, int) const { return rows.pack(2, k); }

  const RowsAhead<T, kPacks, 3>& rows;
};

/// One row of the backward pass.
template <class T, class Rows>
struct BackwardRow {
  using C = compute_t<T>;
  static constexpr int kCount = Pack<T>::kCount;

  __device__ void write_input_gradient() {
    TwoSums<C> sums{0, 0};  // of g and of g * (x - mean)
    rows.each([&](int, int at, const Pack<T>& dy, const Pack<T>& x) {
      const Pack<T> gamma = read_pack(from.gamma, at, n, from.packed);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const C g = static_cast<C>(dy.at[j]) * static_cast<C>(gamma.at[j]);
        sums.first += g;
        sums.second += g * (static_cast<C>(x.at[j]) - mean);
      }
    });
    sums = team_sums(sums);
    const C count = static_cast<C>(from.columns), slope = sums.second / count * rstd * rstd * rstd;
    const C shift = from.mean ? sums.first / count * rstd : C(0);
    rows.each([&](int k, int at, const Pack<T>& dy, const Pack<T>& x) {
      const Pack<T> gamma = read_pack(from.gamma, at, n, from.packed);
      const Pack<T> sum = from.sum ? rows.sum_at(k, at) : Pack<T>{};
      Pack<T> dx;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const C g = static_cast<C>(dy.at[j]) * static_cast<C>(gamma.at[j]);
        // Each product in a fused step of its own: what a compiler would fuse else may differ with and without a sum.
        dx.at[j] = static_cast<T>(::fma(mean - static_cast<C>(x.at[j]), slope, ::fma(g, rstd, -shift)));
        if (from.sum) dx.at[j] = rounded_sum(dx.at[j], sum.at[j]);
      }
      write_pack(from.dx + offset, at, n, from.packed, dx);
    });
  }

  const Backward<T>& from;
  const int n;
  const int64_t offset;
  Rows rows;
  const C mean, rstd;
};

/// A thread's part of dgamma and dbeta of a chunk: in registers for its own columns, in the result itself where rows are too long for that.
template <class T, int kPacks>
struct WeightGradients {
  using C = compute_t<T>;
  static constexpr int kCount = Pack<T>::kCount, kHeld = kPacks > 0 ? kPacks *kCount : 1;

  template <class Rows>
  __device__ void add(BackwardRow<T, Rows>& row) {
    row.rows.each([&](int k, int at, const Pack<T>& dy, const Pack<T>& x) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const C g = dy.at[j], scaled = g * ((static_cast<C>(x.at[j]) - row.mean) * row.rstd);
        if constexpr (kPacks > 0) {
          gamma[k * kCount + j] += scaled;
          beta[k * kCount + j] += g;
        } else if (at + j < row.n) {
          to[at + j] += scaled;
          if (centered) to[columns + at + j] += g;
        }
      }
    });
  }
  /// Calls f(column, element of gamma, element of beta) for the thread's columns.
  template <class F>
  __device__ void each_column(F f) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int at = Row<T, kPacks>::position(0, k);
#pragma unroll
      for (int j = 0; j < kCount; ++j)
        if (at + j < columns) f(at + j, gamma[k * kCount + j], beta[k * kCount + j]);
    }
  }
  /// Adds up the teams of the block in order, through shared memory [2, columns].
  __device__ void write() {
    C* shared = dynamic_shared<C>();
    const int last = blockDim.y - 1;
    for (int team = 0; team <= last; ++team) {
      if (static_cast<int>(threadIdx.y) == team)
        each_column([&](int column, C g, C b) {
          if (team > 0) g += shared[column], b += shared[columns + column];
          C* target = team < last ? shared : to;
          target[column] = g;
          if (centered || team < last) target[columns + column] = b;
        });
      __syncthreads();
    }
  }

  C* to;
  int columns;
  bool centered;
  C gamma[kHeld] = {}, beta[kHeld] = {};
};

/// A row's statistics; rms_norm has no mean.
template <class T, class C = compute_t<T>>
struct Statistics {
  __device__ Statistics(const Backward<T>& from, int64_t at_row, bool exists)
      : mean(exists && from.mean ? from.mean[at_row] : C(0)), rstd(exists ? from.rstd[at_row] : C(0)) {}
  C mean, rstd;
};

template <class T, int kPacks, class Rows>
__device__ void add_row(const Backward<T>& from, int64_t at_row, bool exists, const Statistics<T>& of, Rows rows,
                        WeightGradients<T, kPacks>& sums) {
  BackwardRow<T, Rows> row{from, exists ? from.columns : 0, at_row * from.columns, rows, of.mean, of.rstd};
  if (from.dx) row.write_input_gradient();
  if (from.sums) sums.add(row);
}

/// The rows of a chunk, each of the block's teams every blockDim.y-th of them.
template <class T, int kPacks>
__device__ void read_chunk(const Backward<T>& from, int64_t begin, int64_t end, WeightGradients<T, kPacks>& sums) {
  for (int64_t at_row = begin + threadIdx.y; at_row - threadIdx.y < end; at_row += blockDim.y) {
    const bool exists = at_row < end;
    const int64_t offset = at_row * from.columns;
    const int n = exists ? from.columns : 0;
    add_row(from, at_row, exists, Statistics<T>(from, at_row, exists),
            ReadRows<T, kPacks>{{from.dy + offset, n, from.packed}, {from.x + offset, n, from.packed}, from.sum + offset, from.packed},
            sums);
  }
}

/// The same, where the next row and its statistics are on their way while one is worked on: a multiprocessor has no registers for more rows,
/// and waited for each (an H100 moved 1.4 of its 2.8 TB/s).
template <class T, int kPacks>
__device__ void fetch_chunk(const Backward<T>& from, int64_t begin, int64_t end, WeightGradients<T, kPacks>& sums) {
  RowsAhead<T, kPacks, 3> rows({from.dy, from.x, from.sum}, from.columns);
  int64_t at_row = begin + threadIdx.y;
  rows.fetch(at_row, at_row < end);
  for (Statistics<T> next(from, at_row, at_row < end); at_row - threadIdx.y < end; at_row += blockDim.y) {
    const Statistics<T> of = next;
    const int64_t next_row = at_row + blockDim.y;
    rows.advance();
    rows.fetch(next_row, next_row < end);
    next = Statistics<T>(from, next_row, next_row < end);
    add_row(from, at_row, at_row < end, of, FetchedRows<T, kPacks>{rows}, sums);
  }
  wait_for_copies();
  __syncthreads();  // the memory becomes that of the sums
}

/// A block takes a chunk of rows. With kBlocks > 0 it reads ahead, and a multiprocessor has registers for so many blocks: of kSmallBlock
/// threads or, for one, of kMostRowThreads.
template <class T, int kPacks, int kBlocks>
__global__ void __launch_bounds__(kBlocks > 1 ? kSmallBlock : kMostRowThreads, kBlocks) normalization_gradients(Backward<T> from) {
  const bool centered = from.mean != nullptr;
  const int64_t begin = blockIdx.x * from.rows_per_chunk, end = min(begin + from.rows_per_chunk, from.rows);
  const int sums_of_chunk = (centered ? 2 : 1) * from.columns;
  WeightGradients<T, kPacks> sums{from.sums + int64_t{blockIdx.x} * sums_of_chunk, from.columns, centered};
  if (kPacks == 0 && from.sums) {
    for (int i = threadIdx.x; i < sums_of_chunk; i += blockDim.x) sums.to[i] = 0;
    __syncthreads();
  }
  if constexpr (kBlocks > 0)
    fetch_chunk(from, begin, end, sums);
  else
    read_chunk(from, begin, end, sums);
  if (kPacks > 0 && from.sums) sums.write();
}

constexpr int kChunkColumns = 32, kChunkRows = 32;

/// Blocks of y = 0 sum dgamma, those of y = 1 dbeta. A warp reads neighbouring columns of one chunk; every kChunkRows-th chunk is the same
/// thread's.
template <class C>
__global__ void sum_chunks(const C* sums, C* dgamma, C* dbeta, int64_t chunks, int64_t n) {
  __shared__ C of_row[kChunkRows][kChunkColumns];
  const int64_t column = int64_t{blockIdx.x} * kChunkColumns + threadIdx.x;
  C sum = 0;
  if (column < n) {
#pragma unroll 4
    for (int64_t chunk = threadIdx.y; chunk < chunks; chunk += kChunkRows) sum += sums[(chunk * gridDim.y + blockIdx.y) * n + column];
  }
  of_row[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (int row = 1; row < kChunkRows; ++row) sum += of_row[row][threadIdx.x];
  (blockIdx.y == 0 ? dgamma : dbeta)[column] = sum;
}

}  // namespace

void normalize(Cuda& cuda, const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta, double epsilon,
               const NormalizedRows& result) {
  const int64_t n = x.dim(-1), rows = result.rstd.elements();
  on_float(x.dtype(), "normalization", [&]<class T>() {
    using C = compute_t<T>;
    const Forward<T> to{.x = x.data<T>(),
                        .residual = data_or_null<T>(residual),
                        .gamma = gamma.data<T>(),
                        .beta = data_or_null<T>(beta),
                        .epsilon = static_cast<C>(epsilon),
                        .sum = data_or_null<T>(result.sum),
                        .y = result.y.data<T>(),
                        .mean = data_or_null<C>(result.mean),
                        .rstd = result.rstd.data<C>(),
                        .rows = rows,
                        .columns = static_cast<int>(n),
                        .packed = packs_fit<T>(n, x.data<T>(), data_or_null<T>(residual), gamma.data<T>(), data_or_null<T>(beta),
                                               data_or_null<T>(result.sum), result.y.data<T>())};
    on_rows<T, kForwardPacks>(n, [&]<int kPacks>(const RowTeams& teams) {
      launch(cuda, "normalization", {teams.grid(rows), teams.block()}, normalize_rows<T, kPacks>, to);
    });
  });
}

void normalization_backward(Cuda& cuda, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                            int64_t rows_per_chunk, const Tensor& sum, const Tensor& dx, const Tensor& chunk_sums) {
  const int64_t n = x.dim(-1), rows = rstd.elements();
  on_float(x.dtype(), "normalization_backward", [&]<class T>() {
    using C = compute_t<T>;
    const Backward<T> from{
        .dy = dy.data<T>(),
        .x = x.data<T>(),
        .gamma = gamma.data<T>(),
        .sum = data_or_null<T>(sum),
        .mean = data_or_null<C>(mean),
        .rstd = rstd.data<C>(),
        .dx = data_or_null<T>(dx),
        .sums = data_or_null<C>(chunk_sums),
        .rows = rows,
        .rows_per_chunk = rows_per_chunk,
        .columns = static_cast<int>(n),
        .packed = packs_fit<T>(n, dy.data<T>(), x.data<T>(), gamma.data<T>(), data_or_null<T>(sum), data_or_null<T>(dx))};
    const dim3 chunks(static_cast<unsigned>((rows + rows_per_chunk - 1) / rows_per_chunk));
    on_rows<T, kBackwardElements / Pack<T>::kCount>(n, [&]<int kPacks>(const RowTeams& teams) {
      // Without registers for them a chunk's sums are not shared by several teams.
      const dim3 block = kPacks > 0 ? teams.block() : dim3(static_cast<unsigned>(teams.team));
      const size_t of_sums = block.y > 1 ? 2 * n * sizeof(C) : 0;
      const auto run = [&](auto kernel, size_t of_rows) {
        launch(cuda, "normalization_backward", {chunks, block, std::max(of_rows, of_sums)}, kernel, from);
      };
      if constexpr (std::is_same_v<T, bfloat16> && kPacks > 0)
        if (from.packed) {
          const size_t of_rows = RowsAhead<T, kPacks, 3>::shared_bytes(block);
          if constexpr (kPacks > 1)  // else a team is a warp
            if (block.x * block.y > kSmallBlock) return run(normalization_gradients<T, kPacks, 1>, of_rows);
          return run(normalization_gradients<T, kPacks, kSmallBlocks>, of_rows);
        }
      run(normalization_gradients<T, kPacks, 0>, 0);
    });
  });
}

void add_chunks(Cuda& cuda, const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta) {
  const int64_t n = dgamma.elements();
  const dim3 grid(static_cast<unsigned>((n + kChunkColumns - 1) / kChunkColumns), dbeta.defined() ? 2 : 1);
  on_float(dgamma.dtype(), "normalization_backward", [&]<class T>() {
    using C = compute_t<T>;
    launch(cuda, "add_chunks", {grid, dim3(kChunkColumns, kChunkRows)}, sum_chunks<C>, chunk_sums.data<C>(), dgamma.data<C>(),
           data_or_null<C>(dbeta), chunk_sums.dim(0), n);
  });
}

}  // namespace sluice::kernels
