#include "core/ops/array_list_cuda.cuh"
#include "core/ops/packs_cuda.cuh"
#include "core/ops/sums_of_squares.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kChunk = squares_chunk(DeviceKind::cuda);
constexpr int kMostArrays = 160;  // of a launch, more than GPT-2's parameters

template <class T>
struct Array {
  const T* x;
  int64_t count;
  unsigned place;  ///< of its sum
  unsigned first_block;
};
template <class T>
using Arrays = ArrayList<Array<T>, kMostArrays>;
static_assert(sizeof(Arrays<float>) + sizeof(double*) <= kArgumentBytes);

/// partial[b] = the sum of squares of the chunk of block b. Every thread takes the same elements, aligned or not.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_chunks(const __grid_constant__ Arrays<T> arrays, double* partial) {
  constexpr int kWidth = Pack<T>::kCount;
  const Array<T>& array = arrays.of_block();
  const int64_t begin = (blockIdx.x - array.first_block) * kChunk, end = min(array.count, begin + kChunk);
  const bool aligned = reinterpret_cast<uintptr_t>(array.x) % sizeof(Pack<T>) == 0;
  double sums[kWidth] = {};
  constexpr int kInFlight = 4, kStep = kThreads * kWidth;
  for (int64_t first = begin + threadIdx.x * kWidth; first < end; first += kInFlight * kStep) {
    Whole<Pack<T>> packs[kInFlight];  // zeros beyond the end
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) packs[k] = read_whole(array.x, first + k * kStep, end, aligned);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const auto pack = std::bit_cast<Pack<T>>(packs[k]);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const auto value = static_cast<double>(static_cast<compute_t<T>>(pack.at[j]));
        sums[j] += value * value;
      }
    }
  }
#pragma unroll
  for (int j = 1; j < kWidth; ++j) sums[0] += sums[j];
  const double total = team_sum(sums[0]);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

/// A block an array.
template <class T>
__global__ void __launch_bounds__(kThreads) combine_chunks(const __grid_constant__ Arrays<T> arrays, const double* partial, double* sums) {
  const Array<T>& array = arrays.at[blockIdx.x];
  const int64_t chunks = (array.count + kChunk - 1) / kChunk;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < chunks; i += kThreads) sum += partial[array.first_block + i];
  sum = team_sum(sum);
  if (threadIdx.x == 0) sums[array.place] = sum;
}

/// Those of dtype T; returns where the partial sums of others begin.
template <class T>
double* sum_arrays(Cuda& cuda, const std::vector<Tensor>& xs, double* partial, double* sums, const std::vector<int64_t>& places) {
  std::vector<Array<T>> arrays;
  for (size_t i = 0; i < xs.size(); ++i)
    if (xs[i].dtype() == dtype_of<T>()) arrays.push_back({xs[i].data<T>(), xs[i].elements(), static_cast<unsigned>(places[i]), 0});
  in_lists<kMostArrays>(arrays, kChunk, [&](const Arrays<T>& list) {
    launch(cuda, "sums_of_squares", {list.blocks, kThreads}, sum_chunks<T>, list, partial);
    launch(cuda, "sums_of_squares", {static_cast<unsigned>(list.count), kThreads}, combine_chunks<T>, list, partial, sums);
    partial += list.blocks;
  });
  return partial;
}

template <class T>
Arrays<T> one_array(const T* x, int64_t count, int64_t place) {
  Arrays<T> list{};
  list.at[0] = {x, count, static_cast<unsigned>(place), 0};
  list.count = 1;
  list.blocks = static_cast<unsigned>((count + kChunk - 1) / kChunk);
  return list;
}

}  // namespace

void sums_of_squares(Cuda& cuda, const std::vector<Tensor>& xs, const Tensor& partial, const Tensor& sums,
                     const std::vector<int64_t>& places) {
  auto *parts = partial.data<double>(), *to = sums.data<double>();
  parts = sum_arrays<float>(cuda, xs, parts, to, places);
  parts = sum_arrays<double>(cuda, xs, parts, to, places);
  sum_arrays<bfloat16>(cuda, xs, parts, to, places);
}

void squares_of_chunks(Cuda& cuda, const Tensor& x, const Tensor& partial) {
  if (x.elements() == 0) return;
  on_float(x.dtype(), "squares_of_chunks", [&]<class T>() {
    const Arrays<T> list = one_array(x.data<T>(), x.elements(), 0);
    launch(cuda, "squares_of_chunks", {list.blocks, kThreads}, sum_chunks<T>, list, partial.data<double>());
  });
}

void sum_of_chunks(Cuda& cuda, const Tensor& partial, const Tensor& sums, int64_t place) {
  const auto list = one_array<float>(nullptr, partial.elements() * kChunk, place);
  launch(cuda, "sum_of_chunks", {1, kThreads}, combine_chunks<float>, list, partial.data<double>(), sums.data<double>());
}

}  // namespace sluice::kernels
