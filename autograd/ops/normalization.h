#pragma once
#include "autograd/var.h"

namespace sluice {

/// Differentiable layer_norm over the last axis; keeps x and two numbers a row.
Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon = 1e-5);
/// Differentiable rms_norm over the last axis; keeps x and one number a row.
Var rms_norm(const Var& x, const Var& gamma, double epsilon = 1e-5);

}  // namespace sluice
