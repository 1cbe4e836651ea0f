#pragma once
#include "core/tensor.h"

namespace sluice {

/// Rows of a table:  y[..., :] = table[ids[...], :].
/// Shape   ids [...], table [V, D]  ->  y [..., D], dtype of the table.
/// Dtypes  ids i32, i64, u8; table f32, bf16, f64.
/// Errors  UsageError when an id lies outside [0, V), naming it, its position and V.
Tensor embedding(const Tensor& ids, const Tensor& table);

/// Gradient of the table:  dtable[v, :] = sum of dy[p, :] over the positions p with ids[p] = v, added in order of position.
/// `ids` are those that `embedding` has accepted.
Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t vocabulary);
/// Adds the same to `sums` [V, D], row-major, whose dtype is that of the arithmetic (f64 for f64, else f32).
void embedding_backward_into(const Tensor& ids, const Tensor& dy, const Tensor& sums);

namespace kernels {
void embedding(Cpu& cpu, const Tensor& ids, const Tensor& table, const Tensor& y);
/// sums, in the type of arithmetic, += the rows of dy.
void embedding_backward(Cpu& cpu, const Tensor& ids, const Tensor& dy, const Tensor& sums);
}  // namespace kernels

}  // namespace sluice
