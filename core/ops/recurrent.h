#pragma once
#include "core/tensor.h"

namespace sluice {

/// A recurrent layer over whole sequences: for every step the product of the state before it with `weight`, and one fused kernel for all gates.
/// What the gates take from the inputs, x W^T + b, is `gates`: one product over all steps, made before by linear().
/// Shape   B sequences of T >= 1 steps, H units: gates [B, T, 4 H] (gru: 3 H), weight [4 H, H] (3 H); states before the first step [B, H], zeros
///         where undefined -> y [B, T, H], the hidden state after each step. Gates lie as in PyTorch: input, forget, cell, output; of a gru
///         reset, update, new.
/// Dtypes  f32, f64, bf16 (sums, gates and cells in f32); all alike. Rows of gates may lie apart.
///         With lengths i32 [B] a sequence ends after so many steps: the rest of its gates is padding, which is not read, changes no state
///         and gets a gradient of zero; y is zeros there.
/// Errors  UsageError naming the shapes; on CPUs for lengths outside [0, T], which elsewhere count as T or as 0.
/// Threads the same bits for every number of threads.
/// Cost    8 H H FLOPs (6 of a gru) a sequence and step forward and twice that backward; everything is linear in T. The gradient of the weight
///         is one product over all steps. A copy of the weight, once a call.

/// States before the first step.
struct LstmState {
  Tensor hidden{}, cell{};
};

/// What forward leaves for backward. The cell after the last step is that of step T - 1.
struct LstmResult {
  Tensor y;
  Tensor cells;      ///< after each step, [B, T, H] in the dtype of the arithmetic; after a sequence's end its last
  Tensor activated;  ///< the gates [B, T, 4 H] after their sigmoid or tanh
};

/// cell' = sigmoid(forget) cell + sigmoid(input) tanh(cell gate),  y = sigmoid(output) tanh(cell').
/// Source  Hochreiter, Schmidhuber 1997; Gers, Schmidhuber, Cummins 2000 (forget gates).
LstmResult lstm_forward(const Tensor& gates, const Tensor& weight, const LstmState& before = {}, const Tensor& lengths = {});

/// Undefined where not wanted; weight and states in the dtype of the arithmetic.
struct LstmGradients {
  Tensor gates, weight;
  LstmState before;
};
struct LstmWants {
  bool weight = true, hidden = true, cell = true;
};
/// dcell is the gradient of the cell after the last step, if there is one. Of padding dy is zeros.
LstmGradients lstm_backward(const Tensor& weight, const LstmState& before, const LstmResult& result, const Tensor& dy,
                            const LstmWants& wants, const Tensor& dcell = {});

struct GruResult {
  Tensor y;
  Tensor activated;  ///< [B, T, 4 H]: reset, update and new after their sigmoid or tanh, then the new gate's share of the state
};

/// new = tanh(gate + sigmoid(reset) (share + bias)), share = the product with the last H rows of weight,  y' = (1 - u) new + u y, u = sigmoid(update).
/// A bias [H] of that share alone: others are one with those of the inputs.
/// Source  Cho et al. 2014, arXiv:1406.1078, with the reset after the product.
GruResult gru_forward(const Tensor& gates, const Tensor& weight, const Tensor& bias, const Tensor& before = {}, const Tensor& lengths = {});

struct GruGradients {
  Tensor gates, weight, bias, before;
};
struct GruWants {
  bool weight = true, bias = true, before = true;
};
/// Of padding dy is zeros.
GruGradients gru_backward(const Tensor& weight, const Tensor& before, const GruResult& result, const Tensor& dy, const GruWants& wants);

namespace kernels {
/// The number of a step, and the lengths of the sequences: undefined where all have as many steps as there are.
struct StepOfLengths {
  Tensor lengths;
  int64_t t, steps;
};

/// One step. All are matrices [B, ...] whose rows may lie apart; product, before and cell are in the dtype of the arithmetic, and product and
/// before undefined where they are 0. Outputs last.
struct LstmStep {
  StepOfLengths of_lengths;
  Tensor gates, product, before, activated, cell, y;
};
void lstm_step(Cpu& cpu, const LstmStep& step);
void lstm_step(Cuda& cuda, const LstmStep& step);

/// later: the gradient that the next step gives the hidden state, undefined at the last. dcell is that of the cell, of the next step where
/// there is one, then of this one's `before`.
struct LstmBackwardStep {
  Tensor activated, before, cell, dy, later, dcell, dgates;
};
void lstm_backward_step(Cpu& cpu, const LstmBackwardStep& step);
void lstm_backward_step(Cuda& cuda, const LstmBackwardStep& step);

/// before: the hidden state, in the dtype of y.
struct GruStep {
  StepOfLengths of_lengths;
  Tensor gates, product, bias, before, activated, y;
};
void gru_step(Cpu& cpu, const GruStep& step);
void gru_step(Cuda& cuda, const GruStep& step);

/// dhidden is the gradient that the next step gives the hidden state, where there `is_last` is false; then what this one gives `before` beside
/// the product of dproduct with the weight.
struct GruBackwardStep {
  Tensor activated, before, dy, dhidden, dgates, dproduct;
  bool is_last;
};
void gru_backward_step(Cpu& cpu, const GruBackwardStep& step);
void gru_backward_step(Cuda& cuda, const GruBackwardStep& step);
}  // namespace kernels

}  // namespace sluice
