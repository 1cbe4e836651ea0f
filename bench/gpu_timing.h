#pragma once
#include <functional>

#include "core/tensor.h"

namespace sluice::bench {

/// A tensor of a GPU that is filled with the elements of `block` over and over: large data without making each number on the host.
Tensor repeated(const Tensor& block, const Shape& shape);
/// Normal numbers, which repeat after a million.
Tensor noise(const Shape& shape, DType dtype, const DevicePtr& device);

/// Median time that the GPU takes for what `work` enqueues, from events on its stream; `prepare` runs before each and is not timed.
/// The host runs ahead, so its own time does not count as long as it is the shorter; the first calls warm up and are left out.
/// Units  seconds.
double gpu_seconds(const Device& device, int repeats, const std::function<void()>& prepare, const std::function<void()>& work);

/// What a device reaches, measured by programs of this folder.
struct Limits {
  double flops_per_second, bytes_per_second;

  bool is_memory_bound(const Cost& cost) const;
  double seconds(const Cost& cost) const;  ///< of the nearer limit
};
/// On a GPU: the product of two matrices 8192 x 8192 of `dtype`, and a copy of 1 GiB, which is read and written.
Limits measured_limits(const DevicePtr& device, DType dtype);

}  // namespace sluice::bench
