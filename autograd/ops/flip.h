#pragma once
#include "autograd/var.h"
#include "core/ops/flip.h"

namespace sluice {

/// The elements in reverse order along a list of axes; dx = flip(dy).
Var flip(const Var& x, const std::vector<int>& axes);

}  // namespace sluice
