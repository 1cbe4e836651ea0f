#include "core/ops/accumulate.h"
#include "core/ops/array_pairs_cuda.cuh"

namespace sluice::kernels {

namespace {

template <class T>
__global__ void __launch_bounds__(kPairThreads) add_parts(const __grid_constant__ ArrayPairs<T> pairs) {
  update_pair(pairs, [](T sum, T part) { return sum + part; });
}

template <class T>
void add_all(Cuda& cuda, const std::vector<Accumulation>& pairs) {
  in_pair_lists<T>(pairs, [&](const ArrayPairs<T>& list) { launch(cuda, "accumulate", {list.blocks, kPairThreads}, add_parts<T>, list); });
}

}  // namespace

void accumulate(Cuda& cuda, const std::vector<Accumulation>& pairs) {
  add_all<float>(cuda, pairs);
  add_all<double>(cuda, pairs);
}

}  // namespace sluice::kernels
