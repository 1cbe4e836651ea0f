#pragma once
#include "autograd/var.h"
#include "core/ops/attention.h"

namespace sluice {

/// Differentiable attention; see core/ops/attention.h. Saves q, k, v, y, one number a query and the lengths.
Var attention(const Var& q, const Var& k, const Var& v, const AttentionMask& mask);

/// Self-attention of a packed projection: qkv [B, T, 3 H N], which holds H heads of q, then of k, then of v -> [B, T, H N].
/// No slice is copied, and backward writes the one gradient in place.
/// Errors  UsageError unless the last axis divides into 3 x heads.
Var attention_packed(const Var& qkv, int64_t heads, const AttentionMask& mask);

/// Attention to another sequence: q [B, T, H N] and a packed projection kv [B, S, 2 H N], H heads of k, then of v -> [B, T, H N].
/// Errors  UsageError unless the last axes divide so.
Var cross_attention_packed(const Var& q, const Var& kv, int64_t heads, const AttentionMask& mask);

}  // namespace sluice
