#include <algorithm>

#include "core/cuda/kernel.h"
#include "core/ops/array_list_cuda.cuh"
#include "core/ops/running_statistics.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 128;
constexpr int kMostUpdates = 16, kMostParts = 112;  // of a launch

template <class T>
struct Part {
  const T *mean, *variance;
  double count;
};

/// Running statistics and some of their parts, or all.
template <class T>
struct Update {
  T *mean, *variance;
  double momentum;
  int64_t count;
  unsigned first_block;
  int first_part, part_count;
  bool has_first, has_last;
};

/// As many updates with their parts as fit a launch.
template <class T>
struct Updates {
  ArrayList<Update<T>, kMostUpdates> list;
  int part_count = 0;
  Part<T> parts[kMostParts];

  bool has_room(size_t more) const { return list.count < kMostUpdates && part_count + more <= kMostParts; }
  /// `parts`  [begin, end) of the update's.
  void add(const RunningUpdate& of, size_t begin, size_t end) {
    list.add({of.mean.data<T>(), of.variance.data<T>(), of.momentum, of.mean.elements(), 0, part_count, static_cast<int>(end - begin),
              begin == 0, end == of.parts.size()},
             kThreads);
    for (size_t i = begin; i < end; ++i)
      parts[part_count++] = {of.parts[i].mean.data<T>(), of.parts[i].variance.data<T>(), static_cast<double>(of.parts[i].count)};
  }
};
static_assert(sizeof(Updates<float>) + 3 * sizeof(void*) <= kArgumentBytes);

/// totals [3, channels]: count, mean and squares between the launches of an update that has more parts than one takes.
template <class T>
__global__ void pool_parts(const __grid_constant__ Updates<T> updates, const double* sum_of_squares, double* totals, int64_t channels) {
  const Update<T>& of = updates.list.of_block();
  const int64_t j = int64_t{blockIdx.x - of.first_block} * kThreads + threadIdx.x;
  if (j >= of.count || (sum_of_squares && !isfinite(*sum_of_squares))) return;
  PooledMoments all;
  if (!of.has_first) all = {totals[j], totals[channels + j], totals[2 * channels + j]};
  for (int i = of.first_part; i < of.first_part + of.part_count; ++i) {
    const Part<T>& part = updates.parts[i];
    all.add(part.count, part.mean[j], part.variance[j]);
  }
  if (!of.has_last) {
    totals[j] = all.count;
    totals[channels + j] = all.mean;
    totals[2 * channels + j] = all.squares;
    return;
  }
  of.mean[j] = static_cast<T>(of.momentum * of.mean[j] + (1 - of.momentum) * all.mean);
  of.variance[j] = static_cast<T>(of.momentum * of.variance[j] + (1 - of.momentum) * all.unbiased_variance());
}

template <class T>
void update(Cuda& cuda, const std::vector<RunningUpdate>& updates, const Tensor& sum_of_squares, const Tensor& totals) {
  const double* norm = sum_of_squares.defined() ? sum_of_squares.data<double>() : nullptr;
  Updates<T> next;
  const auto run = [&] {
    if (next.list.blocks > 0)
      launch(cuda, "update_running_statistics", {next.list.blocks, kThreads}, pool_parts<T>, next, norm, totals.data<double>(),
             totals.dim(1));
    next = {};
  };
  for (const RunningUpdate& each : updates) {
    const size_t parts = each.parts.size();
    if (!next.has_room(std::min<size_t>(parts, kMostParts))) run();
    for (size_t begin = 0; begin < parts; begin += kMostParts) {
      if (begin > 0) run();  // before the launch that goes on with its totals
      next.add(each, begin, std::min<size_t>(parts, begin + kMostParts));
    }
  }
  run();
}

}  // namespace

void update_running_statistics(Cuda& cuda, const std::vector<RunningUpdate>& updates, const Tensor& sum_of_squares, const Tensor& totals) {
  if (updates[0].mean.dtype() == DType::f64) return update<double>(cuda, updates, sum_of_squares, totals);
  update<float>(cuda, updates, sum_of_squares, totals);
}

}  // namespace sluice::kernels
