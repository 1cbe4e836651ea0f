#pragma once
#include "autograd/var.h"
#include "core/ops/roll.h"

namespace sluice {

/// The elements moved along axes, those beyond the end to the beginning; dx is dy moved back.
Var roll(const Var& x, const std::vector<int64_t>& shifts, const std::vector<int>& axes);

}  // namespace sluice
