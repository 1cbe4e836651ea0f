#pragma once
#include "core/ops/matmul.h"

namespace sluice {

struct LinearGelu {
  Tensor y, before;  ///< the result, and what the GELU was taken of: its gradient reads that
};

/// before = x W^T + bias over the last axis, y = gelu_tanh(before).
/// Shape   x [..., I], weight [O, I], bias [O] -> y and before [..., O], on GPUs with the row stride of core/ops/padded_rows.h.
/// Dtypes  f32, f64, bf16 (sums in f32); all alike.
/// Errors  UsageError naming the shapes.
/// Cost    2 I O FLOPs a row. In bf16 one kernel where cuBLASLt's epilogue gains (cublas::gelu_epilogue_gains), else a product and a pass:
///         memory is the same on every GPU.
LinearGelu linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias);

namespace kernels {
/// y [rows, O] = gelu_tanh(c) of a product with bias; on CUDA this makes c as well, on CPU it is there.
void linear_gelu(Cpu& cpu, const MatmulOperands& product, const Tensor& y);
void linear_gelu(Cuda& cuda, const MatmulOperands& product, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
