#pragma once
#include "autograd/var.h"
#include "core/ops/masked_attention.h"

namespace sluice {

/// Differentiable attention with a mask of pairs; see core/ops/masked_attention.h. `added` gets a gradient, as a learned bias of relative positions
/// needs it, and may be a plain tensor; `allowed` gets none. Either may be undefined. Saves q, k, v and the weights.
Var masked_attention(const Var& q, const Var& k, const Var& v, const AttentionMask& mask, const Var& added, const Tensor& allowed = {});

}  // namespace sluice
