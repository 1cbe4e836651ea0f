#pragma once
#include "core/tensor.h"

namespace sluice {

/// Rows of a table:  y[..., :] = table[ids[...], :].
/// Shape   ids [...], table [V, D]  ->  y [..., D], dtype of the table.
/// Dtypes  ids i32, i64, u8; table f32, bf16, f64.
/// Errors  UsageError when an id lies outside [0, V), naming it, its position and V.
Tensor embedding(const Tensor& ids, const Tensor& table);

/// Gradient of the table:  dtable[v, :] = sum of dy[p, :] over the positions p with ids[p] = v, added in order of position, in f32 (f64 for f64).
/// `ids` are those that `embedding` has accepted.
/// Errors  UsageError when dy has another shape than the rows that these ids gave.
Tensor embedding_backward(const Tensor& ids, const Tensor& dy, int64_t vocabulary);
/// Adds the same to `sums` [V, D], row-major.
void embedding_backward_into(const Tensor& ids, const Tensor& dy, const Tensor& sums);

namespace kernels {
void embedding(Cpu& cpu, const Tensor& ids, const Tensor& table, const Tensor& y);
void embedding(Cuda& cuda, const Tensor& ids, const Tensor& table, const Tensor& y);
/// sums, in the type of arithmetic, += the rows of dy. sorted_ids, i64, is scratch of a GPU: a power of two of elements, at least one an id.
void embedding_backward(Cpu& cpu, const Tensor& ids, const Tensor& dy, const Tensor& sorted_ids, const Tensor& sums);
void embedding_backward(Cuda& cuda, const Tensor& ids, const Tensor& dy, const Tensor& sorted_ids, const Tensor& sums);
}  // namespace kernels

}  // namespace sluice
