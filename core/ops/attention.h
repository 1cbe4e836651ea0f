#pragma once
#include "core/tensor.h"

namespace sluice {

/// Scaled dot-product attention: y = softmax(q k^T / sqrt(N)) v for each sample and head, never storing the [T, S] matrix.
/// Shape   q [B, T, H, N], k and v [B, S, G, N] -> y [B, T, H, N], row-major. G divides H: query head h reads key head h / (H / G).
///         Causal is aligned to the end: query i sees the keys j <= i + S - T, as a key/value cache needs.
/// Dtypes  f32, f64, bf16 (arithmetic in f32); all alike. Strides are honoured on all axes but the last, so q, k and v may be slices
///         of one packed tensor.
/// Errors  UsageError naming the shapes; causal needs S >= T.
/// Threads the same bits for every number of threads: a sample's key head is the unit of work.
/// Cost    4 N FLOPs a visible pair forward, 10 N backward. Scratch, CPU: for each intra-op thread rows of one key head and one block of
///         scores; CUDA: one number a query and head, backward only. CUDA uses tensor cores for bf16 with N <= 128 in whole 16 bytes.
/// Source  Dao 2023, arXiv:2307.08691 (online softmax over key blocks, recomputation from the log-sum-exp).
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal);

/// What forward leaves for backward: log_sum_exp [B, H, T] of each query's scaled scores, in the arithmetic's dtype.
struct AttentionResult {
  Tensor y, log_sum_exp;
};
AttentionResult attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, bool causal);

/// The gradients, written to dq, dk and dv of the shapes of q, k and v (any strides but the last); undefined ones are left out.
void attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy, bool causal,
                        const Tensor& dq, const Tensor& dk, const Tensor& dv);

namespace kernels {
/// Elements of scratch for one thread of a CPU.
int64_t attention_scratch(const Tensor& q, const Tensor& k, bool backward);
void attention(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, bool causal, const AttentionResult& result,
               const Tensor& scratch);
void attention(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, bool causal, const AttentionResult& result,
               const Tensor& scratch);
void attention_backward(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        bool causal, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& scratch);
void attention_backward(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        bool causal, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& scratch);
}  // namespace kernels

}  // namespace sluice
