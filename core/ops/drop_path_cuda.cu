#include "core/ops/drop_path.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 2;  // of a thread, in flight

template <class T>
constexpr int64_t kTile = kThreads* kPacks* int64_t{Pack<T>::kCount};  // elements of a block, all of one sample

/// A block's sample is kept or not as a whole; x is not read where it is not. residual may be null.
template <class T>
__global__ void drop_samples(const T* x, const T* residual, T* y, int64_t sample_elements, int64_t tiles, bool aligned, SampleMask mask) {
  using C = compute_t<T>;
  constexpr int kWidth = Pack<T>::kCount;
  const int64_t sample = blockIdx.x / tiles, begin = sample * sample_elements;
  const int64_t first = blockIdx.x % tiles * kTile<T> + threadIdx.x * kWidth;
  const bool keeps = mask.keeps(sample);
  const C factor = static_cast<C>(mask.factor);
  Pack<T> part[kPacks]{}, base[kPacks]{};
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t at = first + p * kThreads * kWidth;
    if (keeps) part[p] = read_pack(x + begin, at, sample_elements, aligned);
    if (residual) base[p] = read_pack(residual + begin, at, sample_elements, aligned);
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) part[p].at[i] = static_cast<T>(static_cast<C>(base[p].at[i]) + static_cast<C>(part[p].at[i]) * factor);
    write_pack(y + begin, first + p * kThreads * kWidth, sample_elements, aligned, part[p]);
  }
}

}  // namespace

void drop_path(Cuda& cuda, const Tensor& x, const Tensor& residual, const SampleMask& mask, const Tensor& y) {
  if (x.elements() == 0) return;
  const int64_t sample_elements = x.elements() / x.dim(0);
  on_float(x.dtype(), "drop_path", [&]<class T>() {
    const T *from = x.data<T>(), *base = residual.defined() ? residual.data<T>() : nullptr;
    T* to = y.data<T>();
    const int64_t tiles = (sample_elements + kTile<T> - 1) / kTile<T>;
    launch(cuda, "drop_path", {dim3(static_cast<unsigned>(x.dim(0) * tiles)), kThreads}, drop_samples<T>, from, base, to, sample_elements,
           tiles, packs_fit<T>(sample_elements, from, base, to), mask);
  });
}

}  // namespace sluice::kernels
