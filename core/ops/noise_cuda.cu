#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/ops/noise_rules.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// A thread makes the numbers of one block of random words after another.
template <class T>
__global__ void make_noise(Noise kind, RandomStream stream, T* y, int64_t elements, int64_t sample_blocks, int64_t count) {
  for (int64_t at = grid_index(); at < count; at += grid_size()) {
    const int64_t sample = at / sample_blocks, block = at - sample * sample_blocks;
    const auto values = noise_from(kind, stream.words(static_cast<uint64_t>(block), static_cast<uint32_t>(sample)));
    for (int i = 0; i < 4; ++i)
      if (4 * block + i < elements) y[sample * elements + 4 * block + i] = rounded_below<T>(values[i], end_of(kind));
  }
}

}  // namespace

void noise(Cuda& cuda, Noise kind, const RandomStream& stream, const Tensor& y) {
  if (y.elements() == 0) return;
  const int64_t samples = y.dim(0), elements = y.elements() / samples, sample_blocks = (elements + 3) / 4;
  on_float(y.dtype(), "noise", [&]<class T>() {
    launch(cuda, "noise", {grid_for(cuda, samples * sample_blocks, kThreads), kThreads}, make_noise<T>, kind, stream, y.data<T>(), elements,
           sample_blocks, samples * sample_blocks);
  });
}

}  // namespace sluice::kernels
