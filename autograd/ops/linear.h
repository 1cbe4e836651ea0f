#pragma once
#include "autograd/var.h"
#include "core/ops/linear.h"

namespace sluice {

/// Differentiable linear; see core/ops/linear.h.
Var linear(const Var& x, const Var& weight, const Var& bias = {});

/// gelu_tanh(linear(x, weight, bias)), made at once where the device gains by it; see core/ops/linear_gelu.h. Its two nodes are those of
/// its parts, so backward is theirs too.
Var linear_gelu(const Var& x, const Var& weight, const Var& bias);

}  // namespace sluice
