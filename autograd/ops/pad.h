#pragma once
#include "autograd/var.h"
#include "core/ops/pad.h"

namespace sluice {

/// x within a larger tensor of `value`; the gradient is the view of dy in which x lies.
Var pad(const Var& x, const PadWidths& widths, double value = 0);

}  // namespace sluice
