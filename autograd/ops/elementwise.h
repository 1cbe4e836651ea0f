#pragma once
#include "autograd/var.h"
#include "core/ops/elementwise.h"

namespace sluice {

/// The unary ops of core/ops/elementwise_rules.h. The input is kept for the gradient.
Var unary(Unary rule, const Var& x);
#define SLUICE_DECLARE(Rule, name) \
  inline Var name(const Var& x) { return unary(Unary::Rule, x); }
SLUICE_UNARY_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

/// With NumPy broadcasting; gradients are summed over the axes along which an operand was repeated.
Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);
Var div(const Var& a, const Var& b);

/// factor * x.
Var scale(const Var& x, double factor);

/// min(max(x, low), high), with a gradient of zero where the result is one of the ends. The result is kept for it.
Var clamp(const Var& x, double low, double high);

}  // namespace sluice
