#pragma once
#include "autograd/var.h"
#include "core/ops/repeat.h"

namespace sluice {

/// x laid out counts[i] times along each axis; the gradient is the sum over the tiles.
Var repeat(const Var& x, const std::vector<int64_t>& counts);

}  // namespace sluice
