#pragma once
#include "core/ops/attention.h"

namespace sluice::layers {

/// What attention multiplies values with: softmax(q k^T / sqrt(N)) of each sample and head, which the fused op never stores. For looking
/// at it; computed on the host in f64, one number after another.
/// Shape   q [B, T, H, N], k [B, S, G, N] of any floating dtype -> f64 [B, H, T, S]. A query that sees no key gives zeros.
/// Errors  UsageError unless the shapes fit as attention() asks, and for lengths outside [0, T] or [0, S], naming the sample.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionMask& mask);

}  // namespace sluice::layers
