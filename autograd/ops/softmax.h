#pragma once
#include "autograd/var.h"

namespace sluice {

/// Differentiable softmax over an axis; keeps y.
Var softmax(const Var& x, int axis = -1);
/// Differentiable log_softmax over an axis; keeps y.
Var log_softmax(const Var& x, int axis = -1);
/// Differentiable logsumexp over an axis; keeps x.
Var logsumexp(const Var& x, int axis = -1, bool keep = false);

}  // namespace sluice
