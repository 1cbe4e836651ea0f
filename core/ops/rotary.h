#pragma once
#include "core/tensor.h"

namespace sluice {

/// Rotary position encoding: in the first `rotated_heads` heads, the pair (i, i + N/2) of the token at position p is turned by the angle
/// p * base^(-2 i / N); the other heads are copied (so a packed [q, k, v] takes one call).
/// Shape   x [B, T, H, N], N even -> y, same shape, row-major. Token t has position first_position + t.
/// Dtypes  f32, f64, bf16 (angles in f64, arithmetic in f32).
/// Errors  UsageError for an odd N, or more rotated heads than heads.
/// Cost    1 read and 1 write of x; scratch for T * N sines and cosines.
/// Source  Su et al. 2021, arXiv:2104.09864, with the pairing of GPT-NeoX.
Tensor rotary(const Tensor& x, int64_t rotated_heads, int64_t first_position = 0, double base = 10000);
/// The gradient: turns back by the same angles.
Tensor rotary_backward(const Tensor& dy, int64_t rotated_heads, int64_t first_position = 0, double base = 10000);

namespace kernels {
/// `table` receives N/2 cosines, then N/2 sines a token; sines are multiplied by `direction` (1 or -1).
void rotary(Cpu& cpu, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int64_t first_position, double base,
            int direction);
void rotary(Cuda& cuda, const Tensor& x, const Tensor& y, const Tensor& table, int64_t rotated_heads, int64_t first_position, double base,
            int direction);
}  // namespace kernels

}  // namespace sluice
