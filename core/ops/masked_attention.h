#pragma once
#include "core/ops/attention.h"

namespace sluice {

/// What is said about single pairs of a query and a key; each part may be undefined. Shapes [T, S], [B, T, S] or [B, H, T, S], of which B and H may
/// be 1.
struct PairMask {
  Tensor added{};    ///< floats, added to the scaled scores; minus infinity hides a pair
  Tensor allowed{};  ///< u8: a query sees a key where it is not 0
};

/// y, and weights [B, H, T, S] = softmax(q k^T / sqrt(N) + added) in the dtype of q, 0 where a pair is hidden.
struct MaskedAttentionResult {
  Tensor y, weights;
};

/// Attention with masks of any form: y = weights v. A query sees a key that `mask`, `allowed` and `added` all let it see; one that sees none gives
/// zeros, as in attention().
/// Shape, Dtypes  those of attention(); scores and softmax in the dtype of arithmetic. `added` in any floating dtype.
///         Padding beyond lengths is multiplied by 0, so it has to be finite.
/// Errors  UsageError naming shapes and dtypes that do not fit.
/// Cost    Not fused: products over all pairs, hidden ones too, and [B, H, T, S] in memory, of which backward keeps one. attention() is the op
///         for masks that are causal or lengths alone.
MaskedAttentionResult masked_attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                                               const PairMask& pairs);

struct MaskedAttentionGradients {
  Tensor q, k, v, added;
};
/// Those of q, k and v, and of an `added` of the given shape; in the dtype of arithmetic for the last.
MaskedAttentionGradients masked_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& weights,
                                                   const Tensor& dy, const Shape* added);

}  // namespace sluice
