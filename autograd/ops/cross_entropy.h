#pragma once
#include "autograd/var.h"
#include "core/ops/cross_entropy.h"

namespace sluice {

/// Fused softmax cross-entropy, a scalar, differentiable in the logits; keeps the logits, the targets and two numbers a row.
Var cross_entropy(const Var& logits, const Tensor& targets, const CrossEntropyOptions& options = {}, double scale = 1);

}  // namespace sluice
