#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/ops/running_statistics.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 128;
constexpr int kMostParts = 128;  // of a launch, whose arguments may take 4 KiB

template <class T>
struct Parts {
  struct Part {
    const T *mean, *variance;
    double count;
  };
  int count;
  bool are_first, are_last;
  Part at[kMostParts];
};

/// totals [3, n]: count, mean and squares between launches.
template <class T>
__global__ void pool_parts(const __grid_constant__ Parts<T> parts, T* running_mean, T* running_variance, double momentum,
                           const double* sum_of_squares, double* totals, int64_t n) {
  const int64_t j = grid_index();
  if (j >= n || (sum_of_squares && !isfinite(*sum_of_squares))) return;
  PooledMoments all;
  if (!parts.are_first) all = {totals[j], totals[n + j], totals[2 * n + j]};
  for (int i = 0; i < parts.count; ++i) all.add(parts.at[i].count, parts.at[i].mean[j], parts.at[i].variance[j]);
  if (!parts.are_last) {
    totals[j] = all.count;
    totals[n + j] = all.mean;
    totals[2 * n + j] = all.squares;
    return;
  }
  running_mean[j] = static_cast<T>(momentum * running_mean[j] + (1 - momentum) * all.mean);
  running_variance[j] = static_cast<T>(momentum * running_variance[j] + (1 - momentum) * all.unbiased_variance());
}

template <class T>
void update(Cuda& cuda, const Tensor& running_mean, const Tensor& running_variance, const std::vector<BatchMoments>& parts, double momentum,
            const Tensor& sum_of_squares, const Tensor& totals) {
  const int64_t n = running_mean.elements();
  const double* norm = sum_of_squares.defined() ? sum_of_squares.data<double>() : nullptr;
  for (size_t begin = 0; begin < parts.size(); begin += kMostParts) {
    const size_t end = begin + kMostParts < parts.size() ? begin + kMostParts : parts.size();
    Parts<T> list{static_cast<int>(end - begin), begin == 0, end == parts.size(), {}};
    for (size_t i = begin; i < end; ++i)
      list.at[i - begin] = {parts[i].mean.data<T>(), parts[i].variance.data<T>(), static_cast<double>(parts[i].count)};
    launch(cuda, "update_running_statistics", {dim3(static_cast<unsigned>((n + kThreads - 1) / kThreads)), kThreads}, pool_parts<T>, list,
           running_mean.data<T>(), running_variance.data<T>(), momentum, norm, totals.data<double>(), n);
  }
}

}  // namespace

void update_running_statistics(Cuda& cuda, const Tensor& running_mean, const Tensor& running_variance,
                               const std::vector<BatchMoments>& parts, double momentum, const Tensor& sum_of_squares,
                               const Tensor& totals) {
  if (running_mean.dtype() == DType::f64)
    return update<double>(cuda, running_mean, running_variance, parts, momentum, sum_of_squares, totals);
  update<float>(cuda, running_mean, running_variance, parts, momentum, sum_of_squares, totals);
}

}  // namespace sluice::kernels
