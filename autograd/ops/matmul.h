#pragma once
#include "autograd/var.h"
#include "core/ops/matmul.h"

namespace sluice {

/// Differentiable matmul; see core/ops/matmul.h. The gradient of a single matrix used for many is summed over the leading axes, as products
/// are added up; that of one that broadcasts is made for each use, and then summed.
Var matmul(const Var& a, const Var& b, bool transpose_a = false, bool transpose_b = false);

}  // namespace sluice
