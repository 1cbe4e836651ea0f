#pragma once
#include "core/tensor.h"

namespace sluice {

/// y = x W^T + bias over the last axis.
/// Shape   x [..., I], weight [O, I], bias [O] or undefined -> y [..., O], on GPUs with the row stride of core/ops/padded_rows.h.
/// Dtypes  f32, f64, bf16 (sums in f32); all alike.
/// Errors  UsageError naming the shapes.
/// Cost    2 I O FLOPs a row. The product adds the bias while it stores: no pass over y afterwards.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// The same for samples of unequal lengths: tokens from a sample's length on are padding, which is not worked on, and y is zeros there.
/// Shape   x [B, T, I], lengths i32 [B] -> y [B, T, O].
/// Errors  UsageError as above, and for lengths outside [0, T] as matmul_without_padding.
/// Cost    see matmul_without_padding: it gains where skips_padding().
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& lengths);

/// The gradient of the bias: dy [..., O] summed over all axes but the last -> [O] in f32 (f64 for f64), in an order that
/// depends on shapes only. With lengths i32 [B] of dy [B, T, O] without the padding.
Tensor sum_rows(const Tensor& dy, const Tensor& lengths = {});

namespace kernels {
/// dy [rows, O] may have a row stride on CUDA; partial [chunks, O] in the arithmetic dtype gets the sums over each chunk of rows: one chunk on CPU, chunks of kGpuChunkRows on CUDA.
/// Lengths i32 [B], or undefined: on CPUs padding is not read; on CUDA it must be zeros.
void sum_rows(Cpu& cpu, const Tensor& dy, const Tensor& lengths, const Tensor& partial);
void sum_rows(Cuda& cuda, const Tensor& dy, const Tensor& lengths, const Tensor& partial);
}  // namespace kernels

}  // namespace sluice
