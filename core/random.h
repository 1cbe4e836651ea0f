#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>
#include <type_traits>

#include "core/host_device.h"
#include "core/tensor.h"

namespace sluice {

/// Philox4x32-10: four random words as a pure function of a 128-bit counter and a 64-bit key.
/// Source  Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"; checked against Random123's vectors.
SLUICE_HD inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// A stream of random numbers that depends on nothing but these fields, so that nothing is stored and nothing depends on order
/// (promise 1 of docs/design.md). Element e of sample s is word e % 4 of philox({e / 4, use, s, step}, key).
struct RandomStream {
  uint64_t key = 0;           ///< hash of (seed, name): see `random_key`
  uint32_t step = 0;          ///< training step
  uint32_t use = 0;           ///< counts the uses within one node
  uint32_t first_sample = 0;  ///< index in the mini-batch of the tensor's first sample (axis 0)

  SLUICE_HD std::array<uint32_t, 4> words(uint64_t block, uint32_t sample) const {
    return philox({static_cast<uint32_t>(block), use ^ static_cast<uint32_t>(block >> 32 << 16), sample + first_sample, step},
                  {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  }
};

/// Key of a named stream (a node, a parameter): XXH3-64 of the name, seeded.
uint64_t random_key(uint64_t seed, std::string_view name);

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

/// Fills a contiguous tensor with normal numbers (Box-Muller), a function of the key alone. Dtypes f32, bf16, f64.
void fill_normal(const Tensor& x, double mean, double standard_deviation, uint64_t key);
/// Fills a contiguous tensor with uniform numbers in [low, high), also where few numbers of the dtype lie there; with low where high is low.
void fill_uniform(const Tensor& x, double low, double high, uint64_t key);

/// As fill_normal, with numbers drawn again while they are further from the mean than `cut` standard deviations.
/// Errors  UsageError for a cut below kLeastTruncation, which few numbers would survive.
void fill_truncated_normal(const Tensor& x, double mean, double standard_deviation, double cut, uint64_t key);
inline constexpr double kLeastTruncation = 0.5;

/// New tensors of uniform numbers in [0, 1) and of normal numbers of mean 0 and deviation 1: the same for a key
/// on every device. A key may come from random_key.
Tensor rand(const Shape& shape, uint64_t key, DType dtype = DType::f32, const DevicePtr& device = default_device());
Tensor randn(const Shape& shape, uint64_t key, DType dtype = DType::f32, const DevicePtr& device = default_device());

}  // namespace sluice
