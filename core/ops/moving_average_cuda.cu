#include "core/ops/array_list_cuda.cuh"
#include "core/ops/moving_average.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kChunk = 8192;  // elements of a block
constexpr int kMostPairs = 96;    // of a launch

template <class T>
struct Pair {
  T* average;
  const T* value;
  int64_t count;
  unsigned first_block;
  bool aligned;
};
template <class T>
using Pairs = ArrayList<Pair<T>, kMostPairs>;
static_assert(sizeof(Pairs<float>) + sizeof(double) + sizeof(double*) <= kArgumentBytes);

template <class T>
__global__ void __launch_bounds__(kThreads)
    follow_values(const __grid_constant__ Pairs<T> pairs, double decay, const double* sum_of_squares) {
  if (sum_of_squares && !isfinite(*sum_of_squares)) return;
  constexpr int kWidth = Pack<T>::kCount;
  const auto rate = static_cast<T>(1 - decay);
  const Pair<T>& pair = pairs.of_block();
  const int64_t begin = (blockIdx.x - pair.first_block) * kChunk, end = min(pair.count, begin + kChunk);
  for (int64_t first = begin + threadIdx.x * kWidth; first < end; first += kThreads * kWidth) {
    Pack<T> average = read_pack(pair.average, first, pair.count, pair.aligned);
    const Pack<T> value = read_pack(pair.value, first, pair.count, pair.aligned);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) average.at[i] += rate * (value.at[i] - average.at[i]);
    write_pack(pair.average, first, pair.count, pair.aligned, average);
  }
}

template <class T>
void follow(Cuda& cuda, const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares) {
  std::vector<Pair<T>> own;
  for (const MovingAverage& pair : pairs) {
    const Tensor &average = pair.average, &value = pair.value;
    if (average.dtype() != dtype_of<T>()) continue;
    T *to = average.data<T>(), *from = value.data<T>();
    own.push_back({to, from, average.elements(), 0, packs_fit<T>(0, to, from)});
  }
  const double* norm = sum_of_squares.defined() ? sum_of_squares.data<double>() : nullptr;
  in_lists<kMostPairs>(own, kChunk, [&](const Pairs<T>& list) {
    launch(cuda, "moving_average_step", {list.blocks, kThreads}, follow_values<T>, list, decay, norm);
  });
}

}  // namespace

void moving_average_step(Cuda& cuda, const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares) {
  follow<float>(cuda, pairs, decay, sum_of_squares);
  follow<double>(cuda, pairs, decay, sum_of_squares);
}

}  // namespace sluice::kernels
