#pragma once
#include "autograd/var.h"
#include "core/ops/elementwise.h"

namespace sluice {

/// The unary ops of core/ops/elementwise_names.h. The input is kept for the gradient.
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
/// a to the power of b. The gradient of an exponent is NaN where its base is negative.
Var pow(const Var& a, const Var& b);
/// Equal elements share the gradient evenly.
Var maximum(const Var& a, const Var& b);
Var minimum(const Var& a, const Var& b);
/// a where a > 0, else b a, with slopes b that are learned.
Var prelu(const Var& a, const Var& b);

/// With a number, which is no node and needs no memory.
Var add(const Var& x, double number);
inline Var add(double number, const Var& x) { return add(x, number); }
Var sub(const Var& x, double number);
Var sub(double number, const Var& x);
Var mul(const Var& x, double number);
inline Var mul(double number, const Var& x) { return mul(x, number); }
Var div(const Var& x, double number);
Var div(double number, const Var& x);
Var pow(const Var& x, double exponent);

/// factor * x + offset.
Var affine(const Var& x, double factor, double offset);
/// factor * x.
Var scale(const Var& x, double factor);

/// As core/ops/elementwise.h has them. The input is kept for the gradient.
Var leaky_relu(const Var& x, double slope = 0.01);
Var elu(const Var& x, double alpha = 1);

/// min(max(x, low), high), with a gradient of zero where the result is one of the ends. The result is kept for it.
Var clamp(const Var& x, double low, double high);
inline Var clamp_min(const Var& x, double low) { return clamp(x, low, std::numeric_limits<double>::infinity()); }
inline Var clamp_max(const Var& x, double high) { return clamp(x, -std::numeric_limits<double>::infinity(), high); }

}  // namespace sluice
