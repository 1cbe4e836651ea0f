#pragma once
#include "autograd/var.h"

namespace sluice {

/// Differentiable softmax over the last axis; keeps y.
Var softmax(const Var& x);
/// Differentiable log_softmax over the last axis; keeps y.
Var log_softmax(const Var& x);

}  // namespace sluice
