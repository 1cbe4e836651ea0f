#pragma once
#include "autograd/var.h"
#include "core/ops/rotary.h"

namespace sluice {

/// Differentiable rotary position encoding; see core/ops/rotary.h. Saves nothing: the gradient is the inverse rotation.
Var rotary(const Var& x, int64_t rotated_heads, int64_t first_position = 0, double base = 10000);

}  // namespace sluice
