#pragma once
#include "core/device.h"
#include "core/error.h"
#include "core/tensor.h"

namespace sluice {

// The sum that some backward ops add their gradient dx to in the pass that makes it. They return the rounded dx + sum: the bits of an
// addition afterwards.

/// As kernels read it, row-major; undefined where there is none. Errors  UsageError for a sum unlike dx.
inline Tensor row_major_sum(const char* op, const Tensor& sum, const Shape& shape, DType dtype) {
  if (!sum.defined()) return sum;
  require(sum.shape() == shape && sum.dtype() == dtype, op, ": needs a sum like the gradient, ", name_of(dtype), " ", shape, ", got ", sum);
  return sum.contiguous();
}

/// What adding to it costs beside making dx.
inline Cost sum_cost(const Tensor& sum) {
  return sum.defined() ? Cost{static_cast<double>(sum.elements()), static_cast<double>(sum.bytes()), 0} : Cost{};
}

}  // namespace sluice
