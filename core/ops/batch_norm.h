#pragma once
#include "core/tensor.h"

namespace sluice {

/// What is done to every element of a channel: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, and then y = max(y, 0) with `relu`.
/// Shape   each [C].
/// Dtypes  gamma and beta as x; mean and variance in the type of arithmetic (f64 for f64, else f32).
struct ChannelNorm {
  Tensor gamma, beta, mean, variance;
  double epsilon = 1e-3;
  bool relu = false;
};

/// y, and the moments of this batch: what its backward reads and what running statistics are made of.
struct BatchNormalized {
  Tensor y;
  Tensor mean, variance;  ///< [C] in the type of arithmetic; the variance of N elements (not N - 1)
};

/// Batch normalization in training: ChannelNorm with each channel's mean and variance over all N other elements of x.
/// Shape   x [..., C], as images [B, H, W, C], N >= 1; gamma, beta [C]  ->  y as x, row-major.
/// Dtypes  f32, bf16, f64; one for all.
/// Errors  UsageError when shapes or dtypes do not match, or N = 0.
/// Cost    x is read twice, y written once. Moments are those of chunks of rows, as sums of differences to the chunk's first row, put
///         together in f64: a large mean costs no digits. Chunks depend on the shape and the kind of device alone.
/// Source  Ioffe, Szegedy 2015, arXiv:1502.03167.
BatchNormalized batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, bool relu = false);

/// The same with a mean and a variance that are given, as in evaluation. They are taken to the type of arithmetic; a batch of nothing is
/// legal.
Tensor batch_norm_inference(const Tensor& x, const ChannelNorm& norm);

/// Which gradients to compute.
struct BatchNormNeeds {
  bool x = true;
  bool weights = true;
};
struct BatchNormGradients {
  Tensor x, gamma, beta;  ///< undefined where not asked for; of weights in the type of arithmetic
};

/// With g = dy (0 where ReLU cut), xhat = (x - mean) rstd and rstd = 1 / sqrt(variance + epsilon):  dbeta = sum g,  dgamma = sum g xhat,  and
/// dx = gamma rstd (g - (dbeta + xhat dgamma) / N) in training, where mean and variance depend on x, or dx = gamma rstd g with `constant`
/// moments. Where ReLU cut is found from x again, so that y need not be kept.
BatchNormGradients batch_norm_backward(const Tensor& dy, const Tensor& x, const ChannelNorm& norm, bool constant, BatchNormNeeds needs);

namespace kernels {
/// chunk_sums [2, chunks, C], in the type of arithmetic, is scratch.
void batch_moments(Cpu& cpu, const Tensor& x, int64_t rows_per_chunk, const Tensor& chunk_sums, const Tensor& mean, const Tensor& variance);
void batch_moments(Cuda& cuda, const Tensor& x, int64_t rows_per_chunk, const Tensor& chunk_sums, const Tensor& mean,
                   const Tensor& variance);
void normalize_channels(Cpu& cpu, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk, const Tensor& y);
void normalize_channels(Cuda& cuda, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk, const Tensor& y);
/// chunk_sums as above.
void batch_norm_weight_gradients(Cpu& cpu, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                                 const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta);
void batch_norm_weight_gradients(Cuda& cuda, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                                 const Tensor& chunk_sums, const Tensor& dgamma, const Tensor& dbeta);
/// Undefined dgamma and dbeta: the moments are constant.
void batch_norm_input_gradient(Cpu& cpu, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                               const Tensor& dgamma, const Tensor& dbeta, const Tensor& dx);
void batch_norm_input_gradient(Cuda& cuda, const Tensor& dy, const Tensor& x, const ChannelNorm& norm, int64_t rows_per_chunk,
                               const Tensor& dgamma, const Tensor& dbeta, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
