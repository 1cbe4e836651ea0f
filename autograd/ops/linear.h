#pragma once
#include "autograd/var.h"
#include "core/ops/elementwise_names.h"
#include "core/ops/linear.h"

namespace sluice {

/// Differentiable linear; see core/ops/linear.h.
Var linear(const Var& x, const Var& weight, const Var& bias = {});
/// ... of samples of unequal lengths. Gradients that come for padding count nothing, and padding gets none.
Var linear(const Var& x, const Var& weight, const Var& bias, const Tensor& lengths);

/// rule(linear(x, weight, bias)); gelu_tanh is made along with the product where the device gains by it (core/ops/linear_gelu.h). Of its
/// two nodes that of the activation has the bias, whose gradient it sums up while it makes its own.
/// With lengths, as linear's, the gradient of the bias is linear's, which leaves padding out.
/// Errors  UsageError without a bias, and for a rule that is none of SLUICE_BIAS_ACTIVATIONS.
Var linear_activation(Unary rule, const Var& x, const Var& weight, const Var& bias, const Tensor& lengths = {});

}  // namespace sluice
