#pragma once
#include <vector>

#include "core/host_device.h"
#include "core/tensor.h"

namespace sluice {

/// Mean and variance of each channel in a part of a mini-batch, over `count` numbers a channel.
struct BatchMoments {
  Tensor mean, variance;  ///< [C]; the variance of N elements (not N - 1)
  int64_t count = 0;
};

/// Running statistics, and the parts of the mini-batch that they follow.
struct RunningUpdate {
  Tensor mean, variance;
  std::vector<BatchMoments> parts;
  double momentum = 0;
};

/// running = momentum * running + (1 - momentum) * that of all parts together, for mean and variance: those of a mini-batch from its
/// micro-batches, put together in their order in f64. The variance of the mini-batch is the unbiased one (of N - 1), as PyTorch and
/// TensorFlow's fused BatchNorm keep it; of a single number it is 0. For a list of statistics of one device, in few launches on a GPU.
/// Shape   running and parts [C], contiguous; each of the list has a C of its own.
/// Dtypes  f32, f64; one for the whole list.
/// Errors  UsageError when shapes or dtypes do not match, no part is given, or momentum is not in [0, 1].
/// A `sum_of_squares` (f64 [], of the gradients of the step) that is not finite leaves all as it is, like GradientClip.
void update_running_statistics(const std::vector<RunningUpdate>& updates, const Tensor& sum_of_squares = {});

/// Count, mean and sum of squared deviations from it of a set of numbers, put together from those of its parts, one after another.
/// Source  Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance".
struct PooledMoments {
  double count = 0, mean = 0, squares = 0;

  SLUICE_HD void add(double part_count, double part_mean, double part_variance) {
    const double total = count + part_count, difference = part_mean - mean;
    squares += part_variance * part_count + difference * difference * count * part_count / total;
    mean += difference * part_count / total;
    count = total;
  }
  SLUICE_HD double unbiased_variance() const { return squares / (count > 1 ? count - 1 : 1); }
};

namespace kernels {
/// totals [3, the largest C], f64, is scratch of a GPU: between launches when one does not take all parts of an update.
void update_running_statistics(Cpu& cpu, const std::vector<RunningUpdate>& updates, const Tensor& sum_of_squares, const Tensor& totals);
void update_running_statistics(Cuda& cuda, const std::vector<RunningUpdate>& updates, const Tensor& sum_of_squares, const Tensor& totals);
}  // namespace kernels

}  // namespace sluice
