#pragma once
#include "core/host_device.h"
#include "core/tensor.h"

namespace sluice {

/// begin, begin + step, ... before `end`, as Python's range.
/// Shape   -> [max(0, ceil((end - begin) / step))].
/// Dtypes  all (computed in f64).
/// Errors  UsageError for a step of 0, too many numbers, or numbers that an integer dtype does not hold.
Tensor arange(double begin, double end, double step = 1, DType dtype = DType::f32, const DevicePtr& device = default_device());

/// `count` numbers in equal steps, from `first` to `last` itself.
/// Shape   -> [count].
/// Dtypes  f32, f64, bf16 (computed in f64).
/// Errors  UsageError for another dtype, a negative count, and ends that are not finite or farther apart than the largest double.
Tensor linspace(double first, double last, int64_t count, DType dtype = DType::f32, const DevicePtr& device = default_device());

/// Numbers in equal steps, counted from the nearer end, so that both ends are exact.
struct Ramp {
  double first = 0, step = 0, last = 0;
  int64_t count = 0;

  SLUICE_HD double at(int64_t i) const {
    return 2 * i < count ? first + static_cast<double>(i) * step : last - static_cast<double>(count - 1 - i) * step;
  }
};

namespace kernels {
void ramp(Cpu& cpu, const Ramp& numbers, const Tensor& y);
void ramp(Cuda& cuda, const Ramp& numbers, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
