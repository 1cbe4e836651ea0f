#pragma once
// Rows on the GPU that are on their way while the row before them is worked on, for kernels that have no registers to hold two.
#include "core/cuda/mma.h"
#include "core/ops/rows_cuda.cuh"

namespace sluice::kernels {

/// A row of each of kArrays arrays, and room for the next one: a thread copies and reads its own packs alone, so that nobody waits for others.
/// Shared  [2, kArrays, kPacks, threads of the block] packs, at the beginning of the dynamic memory: rows in turn.
template <class T, int kPacks, int kArrays>
class RowsAhead {
 public:
  static size_t shared_bytes(const dim3& block) { return size_t{2} * kArrays * kPacks * sizeof(Pack<T>) * block.x * block.y; }

  /// Rows of `columns` elements, of whole packs at addresses of 16 bytes; of an array that is null zeros.
  __device__ RowsAhead(const T* const (&arrays)[kArrays], int columns) : columns_(columns) {
#pragma unroll
    for (int of = 0; of < kArrays; ++of) arrays_[of] = arrays[of];
  }

  /// Starts the copies of a row, beside the one that is read; zeros where there is none.
  __device__ void fetch(int64_t row, bool exists) const {
#pragma unroll
    for (int of = 0; of < kArrays; ++of)
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        const int at = position(k);
        const bool is_there = exists && at < columns_ && arrays_[of] != nullptr;
        copy_async<sizeof(Pack<T>)>(pack_of(1 - turn_, of, k), is_there ? arrays_[of] + row * columns_ + at : arrays_[0], is_there);
      }
    commit_copies();
  }
  /// Waits for the row that was fetched, which is read from now on.
  __device__ void advance() {
    wait_for_copies();
    turn_ = 1 - turn_;
  }
  __device__ Pack<T> pack(int of, int k) const { return *pack_of(turn_, of, k); }
  __device__ static int position(int k) { return Row<T, kPacks>::position(0, k); }

 private:
  __device__ static Pack<T>* pack_of(int turn, int of, int k) {
    const int threads = static_cast<int>(blockDim.x * blockDim.y), thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
    return dynamic_shared<Pack<T>>() + ((turn * kArrays + of) * kPacks + k) * threads + thread;
  }

  const T* arrays_[kArrays];
  int columns_, turn_ = 0;
};

}  // namespace sluice::kernels
