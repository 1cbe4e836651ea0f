#pragma once
#include "autograd/var.h"

namespace sluice {

/// 1x1 convolutions of an image's even pixels and of its odd ones, side by side: see core/ops/factorized_reduction.h.
/// Shape   x [B, H, W, C], even and odd [O, 1, 1, C] -> y [B, ceil(H / 2), ceil(W / 2), 2 O].
/// Dtypes  f32, f64, bf16; all alike.
/// Errors  UsageError when shapes or dtypes do not fit.
Var factorized_reduction(const Var& x, const Var& even, const Var& odd);

}  // namespace sluice
