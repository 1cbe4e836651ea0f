#pragma once
#include "autograd/var.h"
#include "core/ops/cumsum.h"

namespace sluice {

/// Running sums along an axis; dx sums dy from each element to the end.
Var cumsum(const Var& x, int axis);

}  // namespace sluice
