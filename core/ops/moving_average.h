#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// An exponential moving average and what it follows.
struct MovingAverage {
  Tensor average, value;
};

/// average += (1 - decay) (value - average), in place, for a list of tensors of one device: one pass over each, few launches on a GPU.
/// Shape   average and value of a pair alike and contiguous.
/// Dtypes  f32, f64; one for both of a pair.
/// Errors  UsageError when they differ, or decay is not in [0, 1].
/// A `sum_of_squares` (f64 [], of the gradients of the step) that is not finite leaves all as it is, like GradientClip.
void moving_average_step(const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares = {});

namespace kernels {
void moving_average_step(Cpu& cpu, const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares);
void moving_average_step(Cuda& cuda, const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares);
}  // namespace kernels

}  // namespace sluice
