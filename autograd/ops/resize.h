#pragma once
#include "autograd/var.h"
#include "core/ops/resize.h"

namespace sluice {

/// Differentiable resize2d; keeps nothing.
Var resize2d(const Var& x, int64_t height, int64_t width);

}  // namespace sluice
