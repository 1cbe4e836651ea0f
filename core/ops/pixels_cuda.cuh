#pragma once
// Kernels whose threads take one pixel of images each.
#include <initializer_list>

#include "core/ops/packs_cuda.cuh"
#include "core/tensor.h"

namespace sluice::kernels {

constexpr int kPixelThreads = 256;

/// A thread takes kWidth neighbouring channels of one pixel of the result, whose images have `height` x `width`. In 32 bits: it is found by
/// division.
struct Pixel {
  __device__ Pixel(unsigned thread, unsigned runs, unsigned height, unsigned width, unsigned channels_a_run) {
    const unsigned pixel = thread / runs, line = pixel / width;
    channel = (thread - pixel * runs) * channels_a_run;
    column = pixel - line * width;
    image = line / height;
    row = line - image * height;
  }
  unsigned column, row, image, channel;
};

/// Calls f.operator()<kWidth>(blocks, threads), as wide as the channels and the addresses that are read allow, for the pixels of the result.
/// Errors  UsageError for 2^32 threads or more.
template <class T, class F>
void on_pixels(int64_t channels, std::initializer_list<const T*> from, const Tensor& result, const F& f) {
  if (result.elements() == 0) return;
  const auto run = [&]<int kWidth>() {
    const int64_t threads = result.elements() / kWidth;
    require<UsageError>(threads < (int64_t{1} << 32) - kPixelThreads, "images on cuda: need fewer than 2^32 groups of ", kWidth,
                        " channels, got ", threads, "; use smaller micro-batches");
    f.template operator()<kWidth>(dim3(static_cast<unsigned>((threads + kPixelThreads - 1) / kPixelThreads)), threads);
  };
  bool packs = packs_fit<T>(channels, result.data<T>());
  for (const T* of : from) packs = packs && packs_fit<T>(0, of);
  if (packs) return run.template operator()<Pack<T>::kCount>();
  run.template operator()<1>();
}

}  // namespace sluice::kernels
