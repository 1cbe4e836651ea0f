#pragma once
#include <string>
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// The elements in row-major order as texts of one width, their points below one another, as NumPy prints an array with a precision of 4:
/// as many digits as a number needs and 4 at most, all with an exponent where they are below 1e-4, above 1e8 (f64) or 1e6 (f32, bf16), or
/// more than a factor of 1000 apart; "nan", "inf" and "-inf" to the right.
/// Dtypes  all. x is contiguous and on a CPU device.
/// Source  numpy/_core/arrayprint.py: FloatingFormat and IntegerFormat.
std::vector<std::string> aligned_numbers(const Tensor& x);

}  // namespace sluice
