#pragma once
// Kernels that change many arrays, each by another of its size: see array_list_cuda.cuh.
#include "core/ops/array_list_cuda.cuh"
#include "core/ops/packs_cuda.cuh"
#include "core/tensor.h"

namespace sluice::kernels {

constexpr int kPairThreads = 256;
constexpr int64_t kPairChunk = 8192;  // elements of a block
constexpr int kMostPairs = 96;        // of a launch

template <class T>
struct ArrayPair {
  T* to;
  const T* from;
  int64_t count;
  unsigned first_block;
  bool aligned;
};
template <class T>
using ArrayPairs = ArrayList<ArrayPair<T>, kMostPairs>;
static_assert(sizeof(ArrayPairs<float>) + sizeof(double) + sizeof(double*) <= kArgumentBytes);

/// to[i] = f(to[i], from[i]) for the elements of the calling block.
template <class T, class F>
__device__ void update_pair(const ArrayPairs<T>& pairs, const F& f) {
  constexpr int kWidth = Pack<T>::kCount;
  const ArrayPair<T>& pair = pairs.of_block();
  const int64_t begin = (blockIdx.x - pair.first_block) * kPairChunk, end = min(pair.count, begin + kPairChunk);
  for (int64_t first = begin + threadIdx.x * kWidth; first < end; first += kPairThreads * kWidth) {
    Pack<T> to = read_pack(pair.to, first, pair.count, pair.aligned);
    const Pack<T> from = read_pack(pair.from, first, pair.count, pair.aligned);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to.at[i] = f(to.at[i], from.at[i]);
    write_pack(pair.to, first, pair.count, pair.aligned, to);
  }
}

/// Calls run(list) for those of the pairs that hold T; Pair is a struct of two contiguous tensors, the changed one first.
template <class T, class Pair, class F>
void in_pair_lists(const std::vector<Pair>& pairs, const F& run) {
  std::vector<ArrayPair<T>> own;
  for (const Pair& pair : pairs) {
    const auto& [changed, read] = pair;
    const Tensor &to = changed, &from = read;
    if (to.dtype() != dtype_of<T>()) continue;
    own.push_back({to.data<T>(), from.data<T>(), to.elements(), 0, packs_fit<T>(0, to.data<T>(), from.data<T>())});
  }
  in_lists<kMostPairs>(own, kPairChunk, run);
}

}  // namespace sluice::kernels
