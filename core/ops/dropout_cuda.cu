#include <algorithm>
#include <cmath>

#include "core/ops/dropout.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kBlock = 4;  // elements of a block of random words

/// Neighbours that a thread takes: whole packs and whole blocks of random words.
template <class T>
constexpr int kRun = std::max(kBlock, Pack<T>::kCount);

template <class T>
struct Dropout {
  const T *x, *residual;  ///< no residual: null
  T* y;
  int64_t samples, sample_elements, sample_runs;
  bool aligned;
  uint32_t threshold;  ///< of a word's upper 24 bits: uniform_from(word) >= p
  compute_t<T> factor;
  RandomStream stream;
};

template <class T>
__global__ void drop(Dropout<T> of) {
  using C = compute_t<T>;
  constexpr int kWidth = Pack<T>::kCount, kPacks = kRun<T> / kWidth;
  const int64_t sample = grid_index() / of.sample_runs, first = (grid_index() - sample * of.sample_runs) * kRun<T>;
  if (sample >= of.samples) return;
  const int64_t begin = sample * of.sample_elements;
  Pack<T> part[kPacks], base[kPacks]{};
  for (int p = 0; p < kPacks; ++p) {
    part[p] = read_pack(of.x + begin, first + p * kWidth, of.sample_elements, of.aligned);
    if (of.residual) base[p] = read_pack(of.residual + begin, first + p * kWidth, of.sample_elements, of.aligned);
  }
  uint32_t words[kRun<T>];
#pragma unroll
  for (int block = 0; block < kRun<T> / kBlock; ++block) {
    const auto four = of.stream.words(static_cast<uint64_t>(first / kBlock + block), static_cast<uint32_t>(sample));
    for (int i = 0; i < kBlock; ++i) words[block * kBlock + i] = four[i];
  }
  for (int p = 0; p < kPacks; ++p) {
    for (int i = 0; i < kWidth; ++i) {
      const C kept = words[p * kWidth + i] >> 8 >= of.threshold ? static_cast<C>(part[p].at[i]) * of.factor : C(0);
      part[p].at[i] = static_cast<T>(static_cast<C>(base[p].at[i]) + kept);
    }
    write_pack(of.y + begin, first + p * kWidth, of.sample_elements, of.aligned, part[p]);
  }
}

}  // namespace

void dropout(Cuda& cuda, const Tensor& x, const Tensor& residual, double p, const RandomStream& stream, const Tensor& y) {
  if (x.elements() == 0) return;
  const int64_t samples = x.dim(0), sample_elements = x.elements() / samples;
  on_float(x.dtype(), "dropout", [&]<class T>() {
    const int64_t sample_runs = (sample_elements + kRun<T> - 1) / kRun<T>;
    const T *from = x.data<T>(), *base = residual.defined() ? residual.data<T>() : nullptr;
    T* to = y.data<T>();
    const Dropout<T> of{from,
                        base,
                        to,
                        samples,
                        sample_elements,
                        sample_runs,
                        packs_fit<T>(sample_elements, from, base, to),
                        static_cast<uint32_t>(std::ceil(p * 0x1p24)),
                        static_cast<compute_t<T>>(1 / (1 - p)),
                        stream};
    const dim3 grid(static_cast<unsigned>((samples * sample_runs + kThreads - 1) / kThreads));
    launch(cuda, "dropout", {grid, kThreads}, drop<T>, of);
  });
}

}  // namespace sluice::kernels
