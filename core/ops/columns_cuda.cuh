#pragma once
// Kernels over the rows of a matrix in which every thread keeps to its columns: what belongs to a column stays in registers.
#include "core/ops/packs_cuda.cuh"
#include "core/ops/row_chunks.h"

namespace sluice::kernels {

/// A matrix cut into chunks of rows, a block of threads each. A thread has kWidth columns and takes every blockDim.y-th row of its chunk.
template <int kWidth>
class ColumnBlocks {
 public:
  static constexpr int kThreads = 256;

  ColumnBlocks(int64_t rows, int64_t columns, int64_t chunk_rows = kGpuChunkRows)
      : rows_(rows), columns_(columns), chunk_rows_(chunk_rows) {
    while (threads_across_ < kWarpSize && threads_across_ * kWidth < columns) threads_across_ *= 2;
    blocks_across_ = static_cast<unsigned>((columns + threads_across_ * kWidth - 1) / (threads_across_ * kWidth));
  }
  LaunchShape shape() const {
    const int64_t chunks = (rows_ + chunk_rows_ - 1) / chunk_rows_;
    return {dim3(static_cast<unsigned>(blocks_across_ * chunks)), dim3(threads_across_, kThreads / threads_across_)};
  }

  __device__ int64_t columns() const { return columns_; }
  __device__ int64_t chunk() const { return blockIdx.x / blocks_across_; }
  /// The block's first column, and the thread's.
  __device__ int64_t first_column() const { return int64_t{blockIdx.x % blocks_across_} * blockDim.x * kWidth; }
  __device__ int64_t column() const { return first_column() + threadIdx.x * kWidth; }
  /// The thread's rows run from here in steps of blockDim.y as long as `has` says so: never for one beyond the last column.
  __device__ int64_t first_row() const { return chunk() * chunk_rows_ + threadIdx.y; }
  __device__ bool has(int64_t row) const { return row < rows_ && row < (chunk() + 1) * chunk_rows_ && column() < columns_; }
  /// The thread's part of a row of a matrix whose rows lie `stride` elements apart; zeros where there is none.
  template <class T>
  __device__ Run<kWidth, T> load(const T* matrix, int64_t stride, int64_t row) const {
    using Part = Run<kWidth, T>;
    return std::bit_cast<Part>(has(row) ? load_whole<Part>(matrix + row * stride + column()) : Whole<Part>{});
  }
  template <class T>
  __device__ Run<kWidth, T> load(const T* matrix, int64_t row) const {
    return load(matrix, columns_, row);
  }
  template <class T>
  __device__ void store(T* matrix, int64_t row, const Run<kWidth, T>& run) const {
    store_run(matrix + row * columns_ + column(), run);
  }

 private:
  int64_t rows_, columns_, chunk_rows_;
  unsigned threads_across_ = 1, blocks_across_;  ///< threads of a block side by side, at most a warp
};

/// Calls f(blocks) with the widest ColumnBlocks that the matrices allow; null stands for a matrix that is not there.
template <class T, class F, class... Matrices>
void on_columns(int64_t rows, int64_t columns, F&& f, const Matrices*... matrices) {
  if (packs_fit<T>(columns, matrices...)) return f(ColumnBlocks<Pack<T>::kCount>(rows, columns));
  f(ColumnBlocks<1>(rows, columns));
}

/// Adds the sums of a block's threads by column, in the order of their first rows, and writes them to the chunk's row of partial sums. To
/// be called once in a kernel, by all threads.
template <int kWidth, class C>
__device__ void store_column_sums(const ColumnBlocks<kWidth>& blocks, const C (&sums)[kWidth], C* partial) {
  constexpr int kThreads = ColumnBlocks<kWidth>::kThreads;
  __shared__ C of_threads[kWidth][kThreads];
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (int i = 0; i < kWidth; ++i) of_threads[i][thread] = sums[i];
  __syncthreads();
  for (int j = thread; j < static_cast<int>(blockDim.x) * kWidth && blocks.first_column() + j < blocks.columns(); j += kThreads) {
    C total = 0;
    for (int y = 0; y < static_cast<int>(blockDim.y); ++y) total += of_threads[j % kWidth][y * blockDim.x + j / kWidth];
    partial[blocks.chunk() * blocks.columns() + blocks.first_column() + j] = total;
  }
}

}  // namespace sluice::kernels
