#pragma once
// Numbers of a distribution from random words, for kernels.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include "core/dtype.h"
#include "core/host_device.h"

namespace sluice {

/// `value`, which is below `high`, as the T next to it that is below `high` too: rounding a number near the end may else give the end.
template <class T>
SLUICE_HD T rounded_below(double value, double high) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  const T nearest = static_cast<T>(static_cast<compute_t<T>>(value));
  if (static_cast<double>(nearest) < high) return nearest;
  const auto bits = std::bit_cast<Bits>(nearest);
  constexpr Bits kLeastNegative = Bits(Bits(1) << (8 * sizeof(T) - 1)) | 1;
  return std::bit_cast<T>(nearest == T(0) ? kLeastNegative : static_cast<Bits>(nearest > T(0) ? bits - 1 : bits + 1));
}

/// [0, 1) from a word's upper 24 bits.
SLUICE_HD inline float uniform_from(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// The upper half of a product, floor(a b / 2^64), of 32 bits at a time.
SLUICE_HD constexpr uint64_t upper_product(uint64_t a, uint64_t b) {
  const uint64_t low_a = a & 0xffffffff, high_a = a >> 32, low_b = b & 0xffffffff, high_b = b >> 32;
  const uint64_t middle = high_a * low_b + (low_a * low_b >> 32), other = low_a * high_b + (middle & 0xffffffff);
  return high_a * high_b + (middle >> 32) + (other >> 32);
}

/// Four normal numbers from four words. Source  Box, Muller 1958, "A note on the generation of random normal deviates".
SLUICE_HD inline std::array<double, 4> normal_from(const std::array<uint32_t, 4>& words, double mean, double standard_deviation) {
  using std::cos, std::log, std::sin, std::sqrt;
  std::array<double, 4> values{};
  for (int i = 0; i < 4; i += 2) {
    const double radius = standard_deviation * sqrt(-2 * log((words[i] + 1.0) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * words[i + 1] * 0x1p-32;
    values[i] = mean + radius * cos(angle);
    values[i + 1] = mean + radius * sin(angle);
  }
  return values;
}

}  // namespace sluice
