#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// What a recurrent layer gives.
enum class RecurrentOutput {
  steps,       ///< the last layer's hidden state after each step
  last_states  ///< the states of all layers and directions after the last item: where another one can go on from
};

struct RecurrentOptions {
  int64_t inputs, hidden;
  int64_t layers = 1;          ///< each after the first reads the one before
  bool bidirectional = false;  ///< a second set of units reads the sequence from its end; outputs lie side by side
  double dropout = 0;          ///< between layers
  RecurrentOutput output = RecurrentOutput::steps;
};

/// What LSTM and GRU share.
/// Inputs  {x}, then the hidden state before the first step if wanted, and of an LSTM the cell, or the last states that another LSTM gives:
///         zeros else. Last, if wanted, lengths: items from a sample's length on are padding, which is not read and changes no state. Outputs
///         are zeros there, and the reverse direction begins at the last item before it.
/// Shape   x [B, T, inputs] -> [B, T, hidden], or 2 hidden of both directions. States are [B, hidden], or [B, n, hidden] of n = layers times
///         directions, directions side by side; lengths i32 [B]. Last states are [B, n, hidden] of a GRU, and [B, 2, n, hidden] of an LSTM:
///         hidden states, then cells.
///         Of "layer0", "layer0.reverse", "layer1" ...: input.weight [G hidden, inputs], input.bias [G hidden], recurrent.weight [G hidden, hidden],
///         and of a GRU recurrent.bias [hidden]; gates in PyTorch's order. That has two biases, of which input.bias is the sum; but of a
///         GRU's new gate the second is recurrent.bias.
/// Starts  all uniform within 1 / sqrt(hidden).
/// Cost    see core/ops/recurrent.h. Lengths save no steps: sort samples into batches of like lengths.
class Recurrent : public Composite {
 public:
  enum class Cell { lstm, gru };
  InputCount input_count() const override { return {1, cell_ == Cell::lstm ? 4 : 3}; }
  Var forward(const Call& call) const override;

 protected:
  Recurrent(Cell cell, const RecurrentOptions& options);

 private:
  /// What comes with x: states [B, n, hidden] and lengths, undefined where not given.
  struct Beside {
    Var hidden, cell;
    Tensor lengths;
  };
  Beside beside_x(const Call& call) const;
  void check_states(const Var& states, size_t input) const;
  /// What one direction of a layer gives: the hidden states and, where they are the output, the last states [B, 1 or 2, hidden].
  struct Walked {
    Var y, last;
  };
  Walked walk(const Call& call, int number, const Var& x, const Beside& beside) const;
  int directions() const { return options_.bidirectional ? 2 : 1; }
  Cell cell_;
  RecurrentOptions options_;
  int dropout_;
};

/// Long short-term memory. Source  Hochreiter, Schmidhuber 1997, with the forget gates of Gers, Schmidhuber, Cummins 2000.
class LSTM : public Recurrent {
 public:
  explicit LSTM(const RecurrentOptions& options) : Recurrent(Cell::lstm, options) {}
  LSTM(int64_t inputs, int64_t hidden) : LSTM({.inputs = inputs, .hidden = hidden}) {}
};

/// Gated recurrent units. Source  Cho et al. 2014, arXiv:1406.1078, with the reset after the product.
class GRU : public Recurrent {
 public:
  explicit GRU(const RecurrentOptions& options) : Recurrent(Cell::gru, options) {}
  GRU(int64_t inputs, int64_t hidden) : GRU({.inputs = inputs, .hidden = hidden}) {}
};

}  // namespace sluice::layers
