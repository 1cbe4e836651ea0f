#pragma once
#include "core/tensor.h"

namespace sluice {

struct CrossEntropyOptions {
  double label_smoothing = 0;   ///< in [0, 1): this share of the target goes to all V classes alike
  int64_t ignore_index = -100;  ///< targets of this value count nothing
  Tensor weights{};             ///< [V], f64 for f64 logits, else f32; undefined: 1 for every class
};

/// A loss, and what its backward reads beside the logits.
struct CrossEntropyResult {
  Tensor loss;      ///< scalar, f64 for f64 logits, else f32
  Tensor row_sums;  ///< [N, 2]: maximum m and sum of exp(logit - m), the log-sum-exp in two parts, which keeps digits of large logits
};

/// Softmax cross-entropy, summed over the rows that are not ignored. With p = softmax(logits), e = label_smoothing, w = weights:
///   loss = scale * sum_i [ (1 - e) * w[t_i] * -log p[i, t_i]  +  e / V * sum_c w[c] * -log p[i, c] ].
/// So the smoothed part is weighted by each class's own weight, not by the target's, as in PyTorch's cross_entropy(reduction="sum").
/// Shape   logits [..., V], V >= 1; targets [...], N of them.
/// Dtypes  logits f32, bf16, f64; targets i32, i64, u8. Rows are added in f64, in an order that the shape fixes.
///         Rows of logits may have a stride: they are read in place.
/// Errors  UsageError when shapes or dtypes do not match, or a target is neither in [0, V) nor ignore_index (names row, value and V).
CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {}, double scale = 1);

/// dlogits, in one pass over the logits, with the row stride of core/ops/padded_rows.h; `dy` is the gradient of the scalar, and `options`
/// and `scale` are those of the forward call.
Tensor cross_entropy_backward(const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                              const CrossEntropyOptions& options, double scale);
/// The same into `dlogits`, of which `has_rows` must hold and which may be the logits themselves.
void cross_entropy_backward_into(const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                                 const CrossEntropyOptions& options, double scale, const Tensor& dlogits);

/// Sum of w[t_i] over the targets that are not ignored: 1 / this, over a whole mini-batch, is the scale of its mean loss.
/// A meta device, which knows no targets, answers their number.
double cross_entropy_weight(const Tensor& targets, const CrossEntropyOptions& options = {});

namespace kernels {
/// Logits and their gradients are [N, V] with unit stride in rows; row_losses [N], f64, is scratch.
void cross_entropy(Cpu& cpu, const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, double scale,
                   const Tensor& row_losses, const CrossEntropyResult& result);
void cross_entropy(Cuda& cuda, const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, double scale,
                   const Tensor& row_losses, const CrossEntropyResult& result);
void cross_entropy_backward(Cpu& cpu, const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                            const CrossEntropyOptions& options, double scale, const Tensor& dlogits);
void cross_entropy_backward(Cuda& cuda, const Tensor& dy, const Tensor& logits, const Tensor& targets, const Tensor& row_sums,
                            const CrossEntropyOptions& options, double scale, const Tensor& dlogits);
/// Of tensors in the CPU's memory: the answer is the host's.
double cross_entropy_weight(const Tensor& targets, const CrossEntropyOptions& options);
}  // namespace kernels

}  // namespace sluice
