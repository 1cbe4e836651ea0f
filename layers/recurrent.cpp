#include "layers/recurrent.h"

#include <cmath>

#include "autograd/ops/concat.h"
#include "autograd/ops/flip.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/recurrent.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "layers/dropout.h"

namespace sluice::layers {

namespace {

const char* name_of_layer(Recurrent::Cell cell) { return cell == Recurrent::Cell::lstm ? "LSTM" : "GRU"; }

/// One layer in one direction: {x, hidden, cell, lengths}, undefined where not given -> the hidden states; where last states are wanted, these
/// come behind: [B, T + 1, hidden] of a GRU, [B, T + 2, hidden] of an LSTM.
class Direction : public Module {
 public:
  Direction(Recurrent::Cell cell, int64_t inputs, const RecurrentOptions& options)
      : cell_(cell), inputs_(inputs), hidden_(options.hidden), gives_last_(options.output == RecurrentOutput::last_states) {}
  InputCount input_count() const override { return {4, 4}; }

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
    const auto input = [&](size_t number) {
      const Var& x = call.inputs[number];
      return x.value().defined() ? in_working_dtype(x, weights[0]) : x;
    };
    const Tensor& lengths = call.inputs[3].value();
    const Var gates = linear(input(0), weights[0], weights[1], lengths), hidden = input(1);
    const auto last = [&](const Var& y) { return unsqueeze(last_hidden(y, hidden, lengths), 1); };
    if (cell_ == Recurrent::Cell::gru) {
      const Var y = gru(gates, weights[2], weights[3], hidden, lengths);
      return gives_last_ ? concat({y, last(y)}, 1) : y;
    }
    if (!gives_last_) return lstm(gates, weights[2], hidden, input(2), lengths);
    const auto [y, cell] = lstm_with_cell(gates, weights[2], hidden, input(2), lengths);
    return concat({y, last(y), unsqueeze(cell, 1)}, 1);
  }

 private:
  Recurrent::Cell cell_;
  int64_t inputs_, hidden_;
  bool gives_last_;
};

}  // namespace

Recurrent::Recurrent(Cell cell, const RecurrentOptions& options) : cell_(cell), options_(options) {
  require(options.inputs > 0 && options.hidden > 0 && options.layers > 0, name_of_layer(cell),
          ": needs inputs, hidden and layers > 0, got ", options.inputs, ", ", options.hidden, " and ", options.layers);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const int64_t inputs = layer == 0 ? options.inputs : directions() * options.hidden;
    const std::string name = "layer" + std::to_string(layer);
    add(name, Direction(cell, inputs, options));
    if (options.bidirectional) add(name + ".reverse", Direction(cell, inputs, options));
  }
  dropout_ = add("", Dropout(options.dropout));
}

void Recurrent::check_states(const Var& states, size_t input) const {
  const int64_t count = options_.layers * directions();
  const bool is_one = count == 1 && states.rank() == 2;
  require(is_one || (states.rank() == 3 && states.dim(1) == count), name_of_layer(cell_), ": needs states [B, ", count, ", ",
          options_.hidden, "] as input ", input, ", got ", states.shape());
}

Recurrent::Beside Recurrent::beside_x(const Call& call) const {
  std::vector<Var> states(call.inputs.begin() + 1, call.inputs.end());
  Tensor lengths;
  if (!states.empty() && states.back().rank() < 2) {
    lengths = states.back().value(), states.pop_back();
    const int64_t samples = call.inputs[0].dim(0);
    require(lengths.shape() == Shape{samples} && lengths.dtype() == DType::i32, name_of_layer(cell_), ": needs lengths i32 [", samples,
            "] as the last input, got ", lengths, "; give the number of items of each sample before its padding");
  }
  if (cell_ == Cell::lstm && states.size() == 1 && states[0].rank() == 4 && states[0].dim(1) == 2)
    states = {select(states[0], 1, 0), select(states[0], 1, 1)};
  const size_t most = cell_ == Cell::lstm ? 2 : 1;
  require(states.size() <= most, name_of_layer(cell_), ": needs at most ", most, " inputs of states, then lengths i32 [B], got ",
          states.size(), " of states");
  for (size_t i = 0; i < states.size(); ++i) check_states(states[i], i + 1);
  states.resize(2);
  return {states[0], states[1], lengths};
}

Recurrent::Walked Recurrent::walk(const Call& call, int number, const Var& x, const Beside& beside) const {
  const auto of = [&](const Var& states) { return states.value().defined() && states.rank() == 3 ? select(states, 1, number) : states; };
  const bool is_reverse = number % directions() == 1;
  const auto turned = [&](const Var& items) {
    if (!is_reverse) return items;
    return beside.lengths.defined() ? flip_items(items, beside.lengths) : flip(items, {1});
  };
  const Var all = run(call, number, {turned(x), of(beside.hidden), of(beside.cell), Var(beside.lengths)});
  if (options_.output == RecurrentOutput::steps) return {turned(all), {}};
  return {turned(slice(all, 1, 0, x.dim(1))), slice(all, 1, x.dim(1))};
}

Var Recurrent::forward(const Call& call) const {
  Var x = call.inputs[0];
  require(x.rank() == 3 && x.dim(2) == options_.inputs && is_floating(x.dtype()), name_of_layer(cell_), ": needs floats [B, T, ",
          options_.inputs, "], got ", name_of(x.dtype()), " ", x.shape());
  const Beside beside = beside_x(call);
  std::vector<Var> last;
  for (int layer = 0; layer < static_cast<int>(options_.layers); ++layer) {
    if (layer > 0 && options_.dropout > 0) x = run(call, dropout_, {x});
    std::vector<Var> sides;
    for (int number = layer * directions(); number < (layer + 1) * directions(); ++number) {
      const Walked walked = walk(call, number, x, beside);
      sides.push_back(walked.y), last.push_back(walked.last);
    }
    x = sides.size() > 1 ? concat(sides, 2) : sides[0];
  }
  if (options_.output == RecurrentOutput::steps) return x;
  const Var states = stack(last, 2);
  return cell_ == Cell::gru ? squeeze(states, 1) : states;
}

}  // namespace sluice::layers
