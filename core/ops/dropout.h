#pragma once
#include "core/random.h"
#include "core/tensor.h"

namespace sluice {

/// y = x / (1 - p) where the element's random number is at least p, else 0. Element e of sample s (axis 0) uses `stream` as
/// RandomStream says: the mask is a function of the sample's place in the mini-batch, so that it does not change with the micro-batches.
/// Linear in x, so it is its own gradient: the mask is made again and never stored. p = 0 gives x itself.
/// Shape   x [samples, ...] -> the same, row-major.
/// Dtypes  f32, f64, bf16.
/// Errors  UsageError unless 0 <= p < 1 and x has a sample axis, which counts the samples of the stream where they are known.
/// Source  Srivastava et al. 2014, JMLR 15; Philox as in core/random.h.
Tensor dropout(const Tensor& x, double p, const RandomStream& stream);

/// residual + dropout(x) in one pass. p = 0 gives residual + x.
Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, const RandomStream& stream);

namespace kernels {
/// An undefined residual stands for none.
void dropout(Cpu& cpu, const Tensor& x, const Tensor& residual, double p, const RandomStream& stream, const Tensor& y);
void dropout(Cuda& cuda, const Tensor& x, const Tensor& residual, double p, const RandomStream& stream, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
