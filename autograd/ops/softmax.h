#pragma once
#include "autograd/var.h"

namespace sluice {

/// Differentiable softmax over an axis; keeps y.
Var softmax(const Var& x, int axis = -1);
/// Differentiable log_softmax over an axis; keeps y.
Var log_softmax(const Var& x, int axis = -1);

}  // namespace sluice
