#pragma once
#include "core/random.h"
#include "core/tensor.h"

namespace sluice {

/// Drops whole samples: y[s] = x[s] / keep where sample s (axis 0) is kept, else 0. It is kept with probability `keep`, by the first random
/// number of the sample (element 0, see RandomStream): a function of the sample's place in the mini-batch, so that it does not change with
/// the micro-batches. Linear in x, so it is its own gradient. keep = 1 gives x itself.
/// Shape   x [samples, ...] -> the same, row-major.
/// Dtypes  f32, f64, bf16.
/// Errors  UsageError unless 0 < keep <= 1 and x has a sample axis, which counts the samples of the stream where they are known.
/// Source  Larsson, Maire, Shakhnarovich 2016, arXiv:1605.07648; per sample as in NASNet, arXiv:1707.07012.
Tensor drop_path(const Tensor& x, double keep, const RandomStream& stream);

/// residual + drop_path(x) in one pass. keep = 1 gives residual + x.
Tensor drop_path_add(const Tensor& x, const Tensor& residual, double keep, const RandomStream& stream);

/// Which samples are kept, and by what they are multiplied.
struct SampleMask {
  RandomStream stream;
  uint32_t threshold;  ///< of the upper 24 bits of a sample's first word
  double factor;

  SampleMask(double keep, const RandomStream& numbers);
  SLUICE_HD bool keeps(int64_t sample) const { return stream.words(0, static_cast<uint32_t>(sample))[0] >> 8 >= threshold; }
};

namespace kernels {
/// An undefined residual stands for none.
void drop_path(Cpu& cpu, const Tensor& x, const Tensor& residual, const SampleMask& mask, const Tensor& y);
void drop_path(Cuda& cuda, const Tensor& x, const Tensor& residual, const SampleMask& mask, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
