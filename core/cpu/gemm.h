#pragma once
#include "core/cpu/onednn_matmul.h"

namespace sluice {

/// A matrix product on the calling thread by a library's function, which is not compiled for its sizes: c = op(a) op(b) + beta c (see
/// onednn::Product; without a bias).
///
/// Dtypes   f32: oneDNN where it is built in and the product is larger than 32^3, else Eigen; f64: Eigen.
/// Threads  any. The same bits for the same sizes, whichever thread runs it.
/// Cost     2 m n k FLOPs; the libraries keep packed blocks of bounded size.
void gemm(const onednn::Product& product, const float* a, const float* b, float* c);
void gemm(const onednn::Product& product, const double* a, const double* b, double* c);

/// Products up to 32^3, where the overhead of oneDNN costs more than its kernels win.
inline bool is_tiny(const onednn::Product& product) { return product.m * product.n * product.k <= 32 * 32 * 32; }

}  // namespace sluice
