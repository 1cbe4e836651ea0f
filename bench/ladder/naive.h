#pragma once
#include "core/cuda/cuda.h"
#include "core/ops/normalization.h"
#include "core/ops/optimizer_step.h"

/// The first rung of the kernel ladder: each own kernel as one would write it first, one thread a row or element, with no thought of
/// speed. They show that the shipped kernels compute the same, and what their effort gains.
/// Shape, Dtypes  as the op of that name in core/ops; all tensors contiguous.
namespace sluice::ladder {

void softmax(Cuda& cuda, const Tensor& x, const Tensor& y);
void layer_norm(Cuda& cuda, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, const NormalizedRows& result);
/// dgamma and dbeta are in the dtype of the arithmetic, as mean and rstd are.
void layer_norm_backward(Cuda& cuda, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         const NormalizationGradients& gradients);
/// The loss is the sum of -log p[target]; targets i32, row_losses [N] scratch in the dtype of the loss.
void cross_entropy(Cuda& cuda, const Tensor& logits, const Tensor& targets, const Tensor& row_losses, const Tensor& loss);
void cross_entropy_backward(Cuda& cuda, const Tensor& logits, const Tensor& targets, const Tensor& dlogits);
/// Causal attention with as many key heads as query heads and as many keys as queries, of width at most 128.
void causal_attention(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y);
/// One slot in f32 or f64 with its working copy in bf16, if any.
void adam_step(Cuda& cuda, const OptimizerSlot& slot, const AdamStep& step);
void gelu_tanh(Cuda& cuda, const Tensor& x, const Tensor& y);

}  // namespace sluice::ladder
