#pragma once
#include "autograd/var.h"
#include "core/ops/flip.h"

namespace sluice {

/// The elements in reverse order along a list of axes; dx = flip(dy).
Var flip(const Var& x, const std::vector<int>& axes);
/// Each sample's items in reverse order, before its padding; dx = flip_items(dy).
Var flip_items(const Var& x, const Tensor& lengths);

}  // namespace sluice
