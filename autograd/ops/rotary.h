#pragma once
#include "autograd/var.h"
#include "core/ops/rotary.h"

namespace sluice {

/// Differentiable rotary position encoding; see core/ops/rotary.h. Saves the table alone: the gradient is the inverse rotation.
Var rotary(const Var& x, int64_t rotated_heads, const Tensor& table);

}  // namespace sluice
