#pragma once
#include "autograd/var.h"
#include "core/ops/convolution.h"

namespace sluice {

/// Differentiable convolution; see core/ops/convolution.h.
Var conv2d(const Var& x, const Var& weight, const Window& window, int64_t groups = 1);

}  // namespace sluice
