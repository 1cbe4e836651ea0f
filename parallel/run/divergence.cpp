#include "parallel/run/divergence.h"

#include <cmath>

#include "core/ops/sums_of_squares.h"

namespace sluice::parallel {

/// Squares of f32 and bf16 are far from the largest f64, so that their sum is finite when they are.
bool is_finite(const Tensor& x) {
  const DType dtype = x.dtype();
  const bool has_fractions = dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16;
  return !has_fractions || std::isfinite(sum_of_squares(x).item());
}

}  // namespace sluice::parallel
