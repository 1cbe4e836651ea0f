#pragma once
#include "autograd/var.h"
#include "core/ops/recurrent.h"

namespace sluice {

/// Differentiable recurrent layers over whole sequences -> y [B, T, H]; see core/ops/recurrent.h. States before the first step may be undefined,
/// and so may lengths. Save weight, states, y, the cells of an lstm and the activated gates.
Var lstm(const Var& gates, const Var& weight, const Var& hidden = {}, const Var& cell = {}, const Tensor& lengths = {});
Var gru(const Var& gates, const Var& weight, const Var& bias, const Var& hidden = {}, const Tensor& lengths = {});

/// Hidden states y [B, T, H], and the cell after the last item of each sequence [B, H] in y's dtype.
struct LstmVar {
  Var y, cell;
};
/// lstm() with its last cell. Cost  one more copy of y, in which the cell lies behind.
LstmVar lstm_with_cell(const Var& gates, const Var& weight, const Var& hidden = {}, const Var& cell = {}, const Tensor& lengths = {});

/// The hidden state after the last item of each sequence [B, H]: of a sequence without items the one before, zeros where undefined.
Var last_hidden(const Var& y, const Var& before = {}, const Tensor& lengths = {});

}  // namespace sluice
