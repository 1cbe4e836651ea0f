#pragma once
#include "core/tensor.h"

namespace sluice {

/// y, and what its backward reads: per row [...], in the type of arithmetic (f64 for f64, else f32).
struct NormalizedRows {
  Tensor y;
  Tensor mean;  ///< undefined for rms_norm, which subtracts none
  Tensor rstd;  ///< 1 / sqrt(variance + epsilon)
  Tensor sum;   ///< x + residual, rounded; undefined without a residual. It is the x of the backward pass
};

/// Layer normalization over the last axis:  y = (x - mean) * rstd * gamma + beta, with the variance of D elements (not D - 1).
/// With a residual it is x + residual that is normalized, and kept as `sum`, in the same pass.
/// Shape   x [..., D], D >= 1; gamma, beta [D]; residual as x  ->  y as x, row-major.
/// Dtypes  f32, bf16, f64; one for all.
/// Errors  UsageError when shapes or dtypes do not match.
/// Source  Ba, Kiros, Hinton 2016, arXiv:1607.06450.
NormalizedRows layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, const Tensor& residual = {});

/// Root-mean-square normalization over the last axis:  y = x * rstd * gamma, rstd = 1 / sqrt(mean(x^2) + epsilon).
/// Residual, Shape, Dtypes, Errors  as layer_norm.
/// Source  Zhang, Sennrich 2019, arXiv:1910.07467.
NormalizedRows rms_norm(const Tensor& x, const Tensor& gamma, double epsilon, const Tensor& residual = {});

/// Which gradients to compute; each is computed without the other.
struct NormalizationNeeds {
  bool x = true;
  bool weights = true;
};
struct NormalizationGradients {
  Tensor x, gamma, beta;  ///< undefined where not asked for; beta also for rms_norm
};

/// Gradients of both norms in one pass over dy and x; an undefined mean means rms_norm. With g = dy * gamma, xhat = (x - mean) * rstd:
/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), where rms_norm has no mean(g); dgamma = sum dy * xhat and dbeta = sum dy over
/// rows, in chunks of rows that depend on the shape and the kind of device alone, in f32 (f64 for f64).
/// With a `sum`, like x, it is the rounded dx + sum that is returned: the bits of an addition afterwards, in the same pass over memory.
/// Errors  UsageError for a sum of another shape or dtype, or without needs.x.
NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                              const Tensor& rstd, NormalizationNeeds needs, Tensor sum = {});

namespace kernels {
/// Blocks of the gradients' kernel, each of which takes a chunk of rows, that a multiprocessor of a GPU has registers for.
constexpr int gradient_blocks(DType dtype) { return dtype == DType::bf16 ? 3 : 2; }

/// residual and result.sum may be undefined.
void normalize(Cpu& cpu, const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta, double epsilon,
               const NormalizedRows& result);
void normalize(Cuda& cuda, const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta, double epsilon,
               const NormalizedRows& result);
/// sum, dx and chunk_sums [chunks, 2 or 1, D] (of dgamma and dbeta) may be undefined.
void normalization_backward(Cpu& cpu, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                            int64_t rows_per_chunk, const Tensor& sum, const Tensor& dx, const Tensor& chunk_sums);
void normalization_backward(Cuda& cuda, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                            int64_t rows_per_chunk, const Tensor& sum, const Tensor& dx, const Tensor& chunk_sums);
/// dgamma [D] and dbeta [D] = the sums of chunk_sums [chunks, 2, D] over its chunks; without dbeta, which is then undefined, of
/// [chunks, 1, D]. All in the type of arithmetic.
void add_chunks(Cpu& cpu, const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta);
void add_chunks(Cuda& cuda, const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta);
}  // namespace kernels

}  // namespace sluice
