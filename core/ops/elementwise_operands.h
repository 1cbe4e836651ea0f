#pragma once
#include "core/device.h"
#include "core/error.h"
#include "core/tensor.h"

namespace sluice {

// What elementwise ops ask of their operands, and count.

inline void require_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  require(a.dtype() == b.dtype(), op, ": needs operands of one dtype, got ", a, " and ", b, "; cast one of them");
}

inline void require_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), op, ": needs a floating dtype (f32, bf16, f64), got ", x);
}

/// One operation an element; compulsory traffic.
inline Cost pass_cost(double bytes_read, const Tensor& y) {
  return {static_cast<double>(y.elements()), bytes_read, static_cast<double>(y.bytes())};
}

/// Errors  UsageError when the dtype is of integers and the number is not one of them.
void require_holds(const char* op, DType dtype, double number);

/// A number as an operand beside x: a scalar of its dtype on its device, without a copy from the host.
/// Errors  as require_holds().
Tensor number_like(const char* op, const Tensor& x, double number);

}  // namespace sluice
