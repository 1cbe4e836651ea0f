#pragma once
#include "core/tensor.h"

namespace sluice {

/// Rotary position encoding: in the first `rotated_heads` heads, the pair (i, i + N/2) of token t is turned by the angle whose sine is
/// table[t, i] and whose cosine table[t, i + N/2]; the other heads are copied (so a packed [q, k, v] takes one call).
/// Shape   x [B, T, H, N], N even; table [at least T, N], of sinusoids() -> y like x, row-major.
/// Dtypes  f32, f64, bf16 (table and arithmetic in f32).
/// Errors  UsageError for an odd N, more rotated heads than heads, or another table.
/// Cost    1 read and 1 write of x; 1 read of the table.
/// Source  Su et al. 2021, arXiv:2104.09864, with the pairing of GPT-NeoX.
Tensor rotary(const Tensor& x, int64_t rotated_heads, const Tensor& table);
/// The gradient: turns back by the same angles.
Tensor rotary_backward(const Tensor& dy, int64_t rotated_heads, const Tensor& table);

namespace kernels {
/// `direction`  1, or -1 to turn back.
void rotary(Cpu& cpu, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int direction);
void rotary(Cuda& cuda, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int direction);
}  // namespace kernels

}  // namespace sluice
