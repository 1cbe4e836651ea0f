#pragma once
#include "core/cuda/attention_slices.h"
#include "core/tensor.h"

namespace sluice {

/// Which keys a query sees: query i of sample b sees key j where i < query_lengths[b], j < key_lengths[b] and, when causal, j <= i + S - T.
struct AttentionMask {
  bool causal = false;
  Tensor query_lengths{}, key_lengths{};  ///< i32 [B], the tokens of each sample before its padding; undefined: all
};

/// Scaled dot-product attention: y = softmax(q k^T / sqrt(N)) v for each sample and head, never storing the [T, S] matrix.
/// Shape   q [B, T, H, N], k and v [B, S, G, N] -> y [B, T, H, N], row-major. G divides H: query head h reads key head h / (H / G).
///         Causal is aligned to the end of the tensors, padding included, as a key/value cache needs; where T == S, query i sees the
///         keys j <= i of its sample's length. A query that sees no key gives zeros and gets a gradient of zeros, like keys that none sees.
/// Dtypes  f32, f64, bf16 (sums in f32; softmax weights too, but on GPUs and where a CPU has AMX, which round them to bf16); all alike. Strides
///         are honoured on all axes but the last, so q, k and v may be slices of one packed tensor. Where a CPU has AMX, it serves samples of
///         many tokens in f32, too: as exact, but for infinite numbers and those beyond bf16 (core/cpu/amx_gemm.h).
/// Errors  UsageError naming the shapes; causal needs S >= T; lengths outside [0, T] or [0, S], naming the sample.
/// Threads the same bits for every number of threads: a sample's key head is the unit of work.
/// Cost    4 N FLOPs a visible pair forward, 10 N backward, as if every length were the longest: lengths are not known when costs are
///         counted, but padding is neither read nor worked on. Scratch, CPU: for each intra-op thread rows of one key head and one block
///         of scores; CUDA: one number a query and head, and in bf16 up to 129 MiB for cuDNN, backward only. CUDA uses tensor cores for
///         bf16 with N <= 256 in whole 16 bytes, those of warpgroups on sm_90a where SLUICE_WARPGROUPS=1 asks for them (N <= 64, 97 to
///         128), and cuDNN for calls without lengths alone.
/// Source  Dao 2023, arXiv:2307.08691 (online softmax over key blocks, recomputation from the log-sum-exp).
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask);

/// What forward leaves for backward: log_sum_exp [B, H, T] of each query's scaled scores, in the arithmetic's dtype; not written for
/// queries that see no key.
struct AttentionResult {
  Tensor y, log_sum_exp;
};
AttentionResult attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask);

/// The gradients, written to dq, dk and dv of the shapes of q, k and v (any strides but the last); undefined ones are left out.
void attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        const AttentionMask& mask, const Tensor& dq, const Tensor& dk, const Tensor& dv);

namespace kernels {
/// Scratch of backward on a GPU, in the arithmetic's dtype: sum(dy * y) of each query, laid out as log_sum_exp, and what cuDNN may need.
struct AttentionGpuScratch {
  int64_t elements;
  AttentionSlices slices;
  int64_t workspace = 0;  ///< where cuDNN's begins; 0: none
};
AttentionGpuScratch attention_gpu_scratch(const Tensor& q, const Tensor& k, const AttentionMask& mask);
/// Elements of scratch for one thread of a CPU.
int64_t attention_scratch(const Tensor& q, const Tensor& k, bool backward);
void attention(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, const AttentionResult& result,
               const Tensor& scratch);
void attention(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, const AttentionResult& result,
               const Tensor& scratch);
void attention_backward(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        const AttentionMask& mask, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& scratch);
void attention_backward(Cuda& cuda, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        const AttentionMask& mask, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& scratch);
}  // namespace kernels

}  // namespace sluice
