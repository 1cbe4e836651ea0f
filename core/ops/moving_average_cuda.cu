#include "core/ops/array_pairs_cuda.cuh"
#include "core/ops/moving_average.h"

namespace sluice::kernels {

namespace {

template <class T>
__global__ void __launch_bounds__(kPairThreads)
    follow_values(const __grid_constant__ ArrayPairs<T> pairs, double decay, const double* sum_of_squares) {
  if (sum_of_squares && !isfinite(*sum_of_squares)) return;
  const auto rate = static_cast<T>(1 - decay);
  update_pair(pairs, [rate](T average, T value) { return average + rate * (value - average); });
}

template <class T>
void follow(Cuda& cuda, const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares) {
  const double* norm = sum_of_squares.defined() ? sum_of_squares.data<double>() : nullptr;
  in_pair_lists<T>(pairs, [&](const ArrayPairs<T>& list) {
    launch(cuda, "moving_average_step", {list.blocks, kPairThreads}, follow_values<T>, list, decay, norm);
  });
}

}  // namespace

void moving_average_step(Cuda& cuda, const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares) {
  follow<float>(cuda, pairs, decay, sum_of_squares);
  follow<double>(cuda, pairs, decay, sum_of_squares);
}

}  // namespace sluice::kernels
