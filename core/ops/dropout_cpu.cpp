#include <algorithm>
#include <cmath>

#include "core/cpu/cpu.h"
#include "core/ops/dropout.h"

namespace sluice::kernels {

namespace {

constexpr int kBlocks = 64;  // Philox blocks made together; g++ unrolls shorter loops instead of vectorising them
constexpr int kElements = 4 * kBlocks;

/// The words of blocks first .. first+63 of a sample, in element order: philox() for 64 counters at a time.
/// `first` is a multiple of 64, so that the blocks differ in the lowest counter word only.
void words_of(const RandomStream& stream, uint64_t first, uint32_t sample, uint32_t* words) {
  uint32_t a[kBlocks], b[kBlocks], c[kBlocks], d[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    a[i] = static_cast<uint32_t>(first) + static_cast<uint32_t>(i);
    b[i] = stream.use ^ static_cast<uint32_t>(first >> 32 << 16);
    c[i] = sample + stream.first_sample;
    d[i] = stream.step;
  }
  auto key_low = static_cast<uint32_t>(stream.key), key_high = static_cast<uint32_t>(stream.key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const uint64_t left = uint64_t{0xD2511F53} * a[i], right = uint64_t{0xCD9E8D57} * c[i];
      a[i] = static_cast<uint32_t>(right >> 32) ^ b[i] ^ key_low;
      b[i] = static_cast<uint32_t>(right);
      c[i] = static_cast<uint32_t>(left >> 32) ^ d[i] ^ key_high;
      d[i] = static_cast<uint32_t>(left);
    }
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  for (int i = 0; i < kBlocks; ++i) {
    words[4 * i] = a[i];
    words[4 * i + 1] = b[i];
    words[4 * i + 2] = c[i];
    words[4 * i + 3] = d[i];
  }
}

template <class T>
struct Mask {
  uint32_t threshold;  ///< of a word's upper 24 bits: uniform_from(word) >= p
  compute_t<T> factor;
};

/// y = residual (null for none) + the kept elements of x. Not inlined: copies of it at several places could differ in where they fuse
/// multiplication and addition, and so in bits.
template <class T>
[[gnu::noinline]] void apply(Mask<T> mask, const uint32_t* words, const T* x, const T* residual, T* y, int64_t count) {
  using A = compute_t<T>;
  const auto kept = [=](int64_t i) {
    const A scaled = static_cast<A>(x[i]) * mask.factor;  // before the choice, so that the loop vectorises
    return words[i] >> 8 >= mask.threshold ? scaled : A(0);
  };
  if (residual)
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(static_cast<A>(residual[i]) + kept(i));
  else
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(kept(i));
}

}  // namespace

void dropout(Cpu& cpu, const Tensor& x, const Tensor& residual, double p, const RandomStream& stream, const Tensor& y) {
  if (x.elements() == 0) return;
  const int64_t samples = x.dim(0), sample_elements = x.elements() / samples;
  const int64_t chunk_elements = 128 * kElements, chunks = (sample_elements + chunk_elements - 1) / chunk_elements;
  on_float(x.dtype(), "dropout", [&]<class T>() {
    const Mask<T> mask{static_cast<uint32_t>(std::ceil(p * 0x1p24)), static_cast<compute_t<T>>(1 / (1 - p))};
    const T *from = x.data<T>(), *base = residual.defined() ? residual.data<T>() : nullptr;
    T* to = y.data<T>();
    cpu.parallel_for(samples * chunks, grain_for(std::min(sample_elements, chunk_elements)), [&](int64_t begin, int64_t end) {
      alignas(64) uint32_t words[kElements];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t sample = item / chunks, first = item % chunks * chunk_elements;
        const int64_t last = std::min(sample_elements, first + chunk_elements);
        for (int64_t e = first; e < last; e += kElements) {
          words_of(stream, static_cast<uint64_t>(e / 4), static_cast<uint32_t>(sample), words);
          const int64_t at = sample * sample_elements + e;
          apply(mask, words, from + at, base ? base + at : nullptr, to + at, std::min<int64_t>(kElements, last - e));
        }
      }
    });
  });
}

}  // namespace sluice::kernels
