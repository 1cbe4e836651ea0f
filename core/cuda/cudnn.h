#pragma once
#include <functional>
#include <string>

#include "core/cpu/onednn_convolution.h"
#include "core/cuda/attention_slices.h"
#include "core/cuda/cuda.h"

/// NVIDIA's cuDNN where it is there: convolutions and attention that it computes faster than Sluice's own kernels. The library is loaded at the first
/// use; a program starts and trains without it.
namespace sluice::cudnn {

/// Why cuDNN serves nothing: not in this build, not on this machine, too old, or SLUICE_CUDNN=0. Empty where it may serve.
std::string unavailable_reason();
/// "9.19.0"; empty where there is none.
std::string version_text();

/// The description that oneDNN takes: images and weights of one dtype, the result of a weight gradient in the arithmetic's.
using Convolution = onednn::Convolution;

struct Operands {
  const void *first, *second;  ///< as for onednn::convolve
  void* result;
};

/// Enqueues the convolution and answers true where cuDNN is this process's choice for it; else enqueues nothing. `own` enqueues Sluice's
/// kernels for the same operands.
///
/// The first call of a kind (shapes, dtype, TF32) on a model of GPU chooses for the life of the process, on every device of that model, as
/// Choices says: among `own` and cuDNN's deterministic algorithms that need no more than the device's workspace, give `own`'s numbers and
/// twice the same bits on these operands. Untried it is `own`. With SLUICE_CUDNN=1 `own` counts as infinitely slow, and the choice is not
/// kept. An algorithm that deviates is left out with a warning.
/// Errors   DeviceError when a chosen algorithm fails later.
/// Threads  those of the device. Trials allocate and wait.
/// Source   docs.nvidia.com/deeplearning/cudnn, "Backend API"; Chetlur et al. 2014, arXiv:1410.0759.
bool convolve(Cuda& cuda, const Convolution& of, const Operands& on, const std::function<void()>& own);

/// Distances in elements of the samples, tokens and heads of a tensor [B, T, H, N] whose last stride is 1.
struct HeadStrides {
  int64_t sample = 0, token = 0, head = 0;
  auto operator<=>(const HeadStrides&) const = default;
};

/// Attention of bf16 as in core/ops/attention.h. The second row of strides is for backward. The library gets slices, one after another: with
/// fewer heads than there are, of one sample.
struct Attention {
  bool backward, causal;
  int64_t samples, queries, keys, heads, key_heads, width;
  HeadStrides q, k, v, y;
  HeadStrides dy, dq, dk, dv;
  AttentionSlices slices;
  auto operator<=>(const Attention&) const = default;
};

struct AttentionOperands {
  const void *q, *k, *v;
  void *y, *log_sum_exp;  ///< [B, H, T] f32; results of forward, operands of backward
  const void* dy = nullptr;
  void *row_sums = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;  ///< row_sums: scratch, as log_sum_exp
  void* workspace = nullptr;                                              ///< of slices.workspace_bytes, where there are any
};

/// As `convolve`. Forward is taken only if log_sum_exp agrees with the own kernels' too: the passes are chosen apart from each other, so
/// that either may read what the other's kernels left.
/// Never taken: heads of other than whole 16 bytes, causal with more keys than queries; backward with fewer key heads than heads (the
/// library rounds the share of each head to bf16 before it adds them up) or without one of the gradients.
bool attend(Cuda& cuda, const Attention& of, const AttentionOperands& on, const std::function<void()>& own);

}  // namespace sluice::cudnn
