#pragma once
#include "core/cpu/onednn_matmul.h"

namespace sluice {

/// A matrix product on the calling thread by Eigen, which is not compiled for its sizes and takes no scratch of ours: c = op(a) op(b) + beta c
/// (see onednn::Product; without a bias).
///
/// Threads  any. The same bits for the same sizes, whichever thread runs it.
/// Cost     2 m n k FLOPs; the library keeps packed blocks of bounded size.
void gemm(const onednn::Product& product, const float* a, const float* b, float* c);
void gemm(const onednn::Product& product, const double* a, const double* b, double* c);

}  // namespace sluice
