#pragma once
#include "autograd/var.h"
#include "core/ops/linear.h"

namespace sluice {

/// Differentiable linear; see core/ops/linear.h.
Var linear(const Var& x, const Var& weight, const Var& bias = {});

}  // namespace sluice
