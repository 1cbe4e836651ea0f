#pragma once
#include <array>
#include <cstdint>
#include <string_view>

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
  uint32_t samples = 0;       ///< of the micro-batch, which axis 0 counts; 0: not known

  SLUICE_HD std::array<uint32_t, 4> words(uint64_t block, uint32_t sample) const {
    return philox({static_cast<uint32_t>(block), use ^ static_cast<uint32_t>(block >> 32 << 16), sample + first_sample, step},
                  {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  }
};

/// Errors  UsageError, with `what` as its subject, for a shape whose first axis does not count the samples of the stream: its numbers would
///         depend on the micro-batches.
void require_samples_first(const char* what, const Shape& shape, const RandomStream& stream);

/// Key of a named stream (a node, a parameter): XXH3-64 of the name, seeded.
uint64_t random_key(uint64_t seed, std::string_view name);

/// Fills a contiguous tensor with normal numbers (Box-Muller), a function of the key alone. Dtypes f32, bf16, f64.
void fill_normal(const Tensor& x, double mean, double standard_deviation, uint64_t key);
/// Fills a contiguous tensor with uniform numbers in [low, high), also where few numbers of the dtype lie there; with low where high is low.
void fill_uniform(const Tensor& x, double low, double high, uint64_t key);

/// As fill_normal, with numbers drawn again while they are further from the mean than `cut` standard deviations.
/// Errors  UsageError for a cut below kLeastTruncation, which few numbers would survive.
void fill_truncated_normal(const Tensor& x, double mean, double standard_deviation, double cut, uint64_t key);
inline constexpr double kLeastTruncation = 0.5;

// New tensors, the same for a key on every device: they are made on the host and copied to a GPU. A key may come from random_key.

/// Uniform numbers in [0, 1), and normal numbers of mean 0 and deviation 1.
Tensor rand(const Shape& shape, uint64_t key, DType dtype = DType::f32, const DevicePtr& device = default_device());
Tensor randn(const Shape& shape, uint64_t key, DType dtype = DType::f32, const DevicePtr& device = default_device());

/// Whole numbers in [low, high), each as likely: the probability of one differs from 1 / (high - low) by less than 2^-64.
/// Dtypes  i64, i32, u8.
/// Errors  UsageError unless low < high, and for another dtype or numbers that it does not hold.
/// Source  Lemire 2019, arXiv:1805.10941: the upper half of the product of 64 random bits with high - low, without its rejections.
Tensor randint(int64_t low, int64_t high, const Shape& shape, uint64_t key, DType dtype = DType::i64,
               const DevicePtr& device = default_device());
/// The numbers 0 .. n-1 in a random order, by n - 1 draws like those of randint.
/// Dtypes, Errors  as randint; UsageError for n < 0.
/// Cost    all on one thread: a draw changes what the next one finds.
/// Source  Durstenfeld 1964, "Algorithm 235: Random permutation" (Fisher-Yates).
Tensor randperm(int64_t n, uint64_t key, DType dtype = DType::i64, const DevicePtr& device = default_device());

}  // namespace sluice
