#include "layers/recurrent.h"

#include <cmath>

#include "autograd/ops/concat.h"
#include "autograd/ops/flip.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/recurrent.h"
#include "autograd/ops/views.h"
#include "layers/dropout.h"

namespace sluice::layers {

namespace {

const char* name_of_layer(Recurrent::Cell cell) { return cell == Recurrent::Cell::lstm ? "LSTM" : "GRU"; }

/// One layer in one direction: {x, states ...} -> the hidden states.
class Direction : public Module {
 public:
  Direction(Recurrent::Cell cell, int64_t inputs, int64_t hidden) : cell_(cell), inputs_(inputs), hidden_(hidden) {}
  InputCount input_count() const override { return {1, 3}; }

  std::vector<ParameterSpec> parameters() const override {
    const bool is_gru = cell_ == Recurrent::Cell::gru;
    const int64_t rows = (is_gru ? 3 : 4) * hidden_;
    const double bound = 1 / std::sqrt(static_cast<double>(hidden_));
    const auto start = Initializer::uniform(-bound, bound);
    std::vector<ParameterSpec> specs{
        {"input.weight", {rows, inputs_}, start}, {"input.bias", {rows}, start, false}, {"recurrent.weight", {rows, hidden_}, start}};
    if (is_gru) specs.push_back({"recurrent.bias", {hidden_}, start, false});
    return specs;
  }

  Var forward(const Call& call) const override {
    const auto& weights = call.parameters;
    const auto state = [&](size_t number) {
      return number < call.inputs.size() ? in_working_dtype(call.inputs[number], weights[0]) : Var();
    };
    const Var gates = linear(state(0), weights[0], weights[1]);
    if (cell_ == Recurrent::Cell::gru) return gru(gates, weights[2], weights[3], state(1));
    return lstm(gates, weights[2], state(1), state(2));
  }

 private:
  Recurrent::Cell cell_;
  int64_t inputs_, hidden_;
};

}  // namespace

Recurrent::Recurrent(Cell cell, const RecurrentOptions& options) : cell_(cell), options_(options) {
  require(options.inputs > 0 && options.hidden > 0 && options.layers > 0, name_of_layer(cell),
          ": needs inputs, hidden and layers > 0, got ", options.inputs, ", ", options.hidden, " and ", options.layers);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const int64_t inputs = layer == 0 ? options.inputs : directions() * options.hidden;
    const std::string name = "layer" + std::to_string(layer);
    add(name, Direction(cell, inputs, options.hidden));
    if (options.bidirectional) add(name + ".reverse", Direction(cell, inputs, options.hidden));
  }
  dropout_ = add("", Dropout(options.dropout));
}

Var Recurrent::walk(const Call& call, int number, const Var& x) const {
  std::vector<Var> inputs{x};
  const int64_t count = options_.layers * directions();
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const Var& states = call.inputs[i];
    const bool is_one = count == 1 && states.rank() == 2;
    require(is_one || (states.rank() == 3 && states.dim(1) == count), name_of_layer(cell_), ": needs states [B, ", count, ", ",
            options_.hidden, "] as input ", i, ", got ", states.shape());
    inputs.push_back(is_one ? states : select(states, 1, number));
  }
  return run(call, number, std::move(inputs));
}

Var Recurrent::forward(const Call& call) const {
  Var x = call.inputs[0];
  require(x.rank() == 3 && x.dim(2) == options_.inputs, name_of_layer(cell_), ": needs x [B, T, ", options_.inputs, "], got ", x.shape());
  for (int layer = 0; layer < static_cast<int>(options_.layers); ++layer) {
    if (layer > 0 && options_.dropout > 0) x = run(call, dropout_, {x});
    const int first = layer * directions();
    const Var forward = walk(call, first, x);
    x = options_.bidirectional ? concat({forward, flip(walk(call, first + 1, flip(x, {1})), {1})}, 2) : forward;
  }
  return x;
}

}  // namespace sluice::layers
