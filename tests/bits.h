#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace sluice::testing {

/// Equal for tensors of the same bits, of any dtype: also of NaNs, and not of 0 beside -0.
inline std::vector<uint64_t> bits_of(const Tensor& x) {
  std::vector<uint64_t> bits;
  for (double value : x.to_vector()) bits.push_back(std::bit_cast<uint64_t>(value));
  return bits;
}

}  // namespace sluice::testing
