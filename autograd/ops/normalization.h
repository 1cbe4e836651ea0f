#pragma once
#include "autograd/var.h"

namespace sluice {

/// Differentiable layer_norm over the last axis; keeps x and two numbers a row.
Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon = 1e-5);
/// Differentiable rms_norm over the last axis; keeps x and one number a row.
Var rms_norm(const Var& x, const Var& gamma, double epsilon = 1e-5);

/// A residual connection and the norm after it, in one pass: sum = x + residual, y = norm(sum).
struct NormalizedSum {
  Var sum, y;
};
NormalizedSum add_layer_norm(const Var& x, const Var& residual, const Var& gamma, const Var& beta, double epsilon = 1e-5);
NormalizedSum add_rms_norm(const Var& x, const Var& residual, const Var& gamma, double epsilon = 1e-5);

}  // namespace sluice
