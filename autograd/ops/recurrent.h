#pragma once
#include "autograd/var.h"
#include "core/ops/recurrent.h"

namespace sluice {

/// Differentiable recurrent layers over whole sequences -> y [B, T, H]; see core/ops/recurrent.h. States before the first step may be undefined.
/// Save weight, states, y, the cells of an lstm and the activated gates.
Var lstm(const Var& gates, const Var& weight, const Var& hidden = {}, const Var& cell = {});
Var gru(const Var& gates, const Var& weight, const Var& bias, const Var& hidden = {});

}  // namespace sluice
