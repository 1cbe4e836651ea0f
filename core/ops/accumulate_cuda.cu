#include "core/ops/accumulate.h"
#include "core/ops/array_list_cuda.cuh"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kChunk = 4096;  // elements of a block
constexpr int kMostPairs = 96;    // of a launch

template <class T>
struct Pair {
  T* sum;
  const T* part;
  int64_t count;
  unsigned first_block;
  bool aligned;
};
template <class T>
using Pairs = ArrayList<Pair<T>, kMostPairs>;
static_assert(sizeof(Pairs<float>) <= kArgumentBytes);

template <class T>
__global__ void __launch_bounds__(kThreads) add_parts(const __grid_constant__ Pairs<T> pairs) {
  constexpr int kWidth = Pack<T>::kCount;
  const Pair<T>& pair = pairs.of_block();
  const int64_t begin = (blockIdx.x - pair.first_block) * kChunk, end = min(pair.count, begin + kChunk);
  for (int64_t first = begin + threadIdx.x * kWidth; first < end; first += kThreads * kWidth) {
    Pack<T> sum = read_pack(pair.sum, first, pair.count, pair.aligned);
    const Pack<T> part = read_pack(pair.part, first, pair.count, pair.aligned);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum.at[i] += part.at[i];
    write_pack(pair.sum, first, pair.count, pair.aligned, sum);
  }
}

template <class T>
void add_all(Cuda& cuda, const std::vector<Accumulation>& pairs) {
  std::vector<Pair<T>> own;
  for (const Accumulation& pair : pairs) {
    const Tensor &sum = pair.sum, &part = pair.part;
    if (sum.dtype() != dtype_of<T>()) continue;
    T *to = sum.data<T>(), *from = part.data<T>();
    own.push_back({to, from, sum.elements(), 0, packs_fit<T>(0, to, from)});
  }
  in_lists<kMostPairs>(own, kChunk, [&](const Pairs<T>& list) { launch(cuda, "accumulate", {list.blocks, kThreads}, add_parts<T>, list); });
}

}  // namespace

void accumulate(Cuda& cuda, const std::vector<Accumulation>& pairs) {
  add_all<float>(cuda, pairs);
  add_all<double>(cuda, pairs);
}

}  // namespace sluice::kernels
