#pragma once
#include "autograd/var.h"
#include "core/ops/upsample.h"

namespace sluice {

/// Differentiable upsample2d; keeps nothing.
Var upsample2d(const Var& x, int64_t factor, int64_t height, int64_t width);

}  // namespace sluice
