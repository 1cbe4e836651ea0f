#pragma once
#include "core/random.h"
#include "core/tensor.h"

namespace sluice {

enum class Noise {
  normal,   ///< of mean 0 and standard deviation 1
  uniform,  ///< in [0, 1), with 24 bits
};

/// Random numbers that belong to samples: element e of sample s (axis 0) comes from word e % 4 of stream.words(e / 4, s), so that they do not
/// change with the micro-batches. They have no gradient. rand() and randn() draw by a key alone.
/// Shape   [samples, ...], row-major.
/// Dtypes  f32, f64, bf16: drawn in f64 and rounded, uniform ones to numbers below 1.
/// Errors  UsageError for another dtype, no axis of samples, or one that does not count those of the stream where they are known.
Tensor noise(Noise kind, const Shape& shape, const RandomStream& stream, DType dtype = DType::f32,
             const DevicePtr& device = default_device());

namespace kernels {
void noise(Cpu& cpu, Noise kind, const RandomStream& stream, const Tensor& y);
void noise(Cuda& cuda, Noise kind, const RandomStream& stream, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
