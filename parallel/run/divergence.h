#pragma once
#include "core/error.h"
#include "core/tensor.h"

namespace sluice::parallel {

/// A training left the finite numbers: lower its rate, or clip. Exit code 6.
struct DivergenceError : Error {
  using Error::Error;
};

/// Whether all elements of a tensor of floats are finite; other dtypes always are. Waits for the device.
/// Cost  8 bytes of scratch for every 8192 elements or more.
bool is_finite(const Tensor& x);

}  // namespace sluice::parallel
