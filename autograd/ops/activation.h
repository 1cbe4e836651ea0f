#pragma once
#include "autograd/var.h"
#include "core/ops/activation.h"

namespace sluice {

/// f(x + bias) for x [..., N] and bias [N], fused: bias_gelu, bias_gelu_tanh, bias_relu, bias_silu. x is kept for the gradient.
Var bias_activation(Unary rule, const Var& x, const Var& bias);
#define SLUICE_DECLARE(Rule, name) \
  inline Var name(const Var& x, const Var& bias) { return bias_activation(Unary::Rule, x, bias); }
SLUICE_BIAS_ACTIVATIONS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

/// silu(a) * b, fused.
Var mul_silu(const Var& a, const Var& b);

}  // namespace sluice
