#include <cmath>

#include "autograd/ops/concat.h"
#include "autograd/ops/recurrent.h"
#include "autograd/ops/views.h"
#include "core/ops/copy.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Sequence by sequence in plain loops: x[0] are gates, x[1] the weight. States, the bias and lengths are given by their places, 0 for none.
struct Sequences {
  Sequences(const std::vector<Tensor>& x, int64_t gates)
      : of_inputs(x[0].to_vector()), weight(x[1].to_vector()), samples(x[0].dim(0)), steps(x[0].dim(1)), units(x[1].dim(1)), count(gates) {}

  double gate(int64_t b, int64_t t, int64_t g, int64_t unit) const { return of_inputs[((b * steps + t) * count + g) * units + unit]; }
  double product(const Values& hidden, int64_t g, int64_t unit) const {
    double sum = 0;
    for (int64_t i = 0; i < units; ++i) sum += weight[(g * units + unit) * units + i] * hidden[i];
    return sum;
  }
  Values state(const std::vector<Tensor>& x, size_t place, int64_t b) const {
    if (place == 0) return Values(units);
    const Values all = x[place].to_vector();
    return {all.begin() + b * units, all.begin() + (b + 1) * units};
  }

  int64_t length(const std::vector<Tensor>& x, size_t place, int64_t b) const {
    return place == 0 ? steps : static_cast<int64_t>(x[place].to_vector()[b]);
  }

  Values of_inputs, weight;
  int64_t samples, steps, units, count;
};

/// y, and with `gives_last` behind it the hidden state and the cell after the last item.
auto lstm_reference(size_t hidden_at, size_t cell_at, size_t lengths_at = 0, bool gives_last = false) {
  return [=](const std::vector<Tensor>& x) {
    const Sequences of(x, 4);
    Values y;
    for (int64_t b = 0; b < of.samples; ++b) {
      Values hidden = of.state(x, hidden_at, b), cell = of.state(x, cell_at, b);
      for (int64_t t = 0; t < of.length(x, lengths_at, b); ++t) {
        Values next(of.units);
        for (int64_t j = 0; j < of.units; ++j) {
          const auto sum = [&](int64_t g) { return of.gate(b, t, g, j) + of.product(hidden, g, j); };
          cell[j] = sigmoid(sum(1)) * cell[j] + sigmoid(sum(0)) * std::tanh(sum(2));
          next[j] = sigmoid(sum(3)) * std::tanh(cell[j]);
        }
        hidden = next;
        y.insert(y.end(), hidden.begin(), hidden.end());
      }
      y.resize(y.size() + (of.steps - of.length(x, lengths_at, b)) * of.units);
      if (gives_last) y.insert(y.end(), hidden.begin(), hidden.end()), y.insert(y.end(), cell.begin(), cell.end());
    }
    return y;
  };
}

auto gru_reference(size_t hidden_at, size_t lengths_at = 0, bool gives_last = false) {
  return [=](const std::vector<Tensor>& x) {
    const Sequences of(x, 3);
    const Values bias = x[2].to_vector();
    Values y;
    for (int64_t b = 0; b < of.samples; ++b) {
      Values hidden = of.state(x, hidden_at, b);
      for (int64_t t = 0; t < of.length(x, lengths_at, b); ++t) {
        Values next(of.units);
        for (int64_t j = 0; j < of.units; ++j) {
          const auto sum = [&](int64_t g) { return of.gate(b, t, g, j) + of.product(hidden, g, j); };
          const double update = sigmoid(sum(1));
          const double candidate = std::tanh(of.gate(b, t, 2, j) + sigmoid(sum(0)) * (of.product(hidden, 2, j) + bias[j]));
          next[j] = (1 - update) * candidate + update * hidden[j];
        }
        hidden = next;
        y.insert(y.end(), hidden.begin(), hidden.end());
      }
      y.resize(y.size() + (of.steps - of.length(x, lengths_at, b)) * of.units);
      if (gives_last) y.insert(y.end(), hidden.begin(), hidden.end());
    }
    return y;
  };
}

Var state_of(const std::vector<Var>& x, size_t place) { return place > 0 ? x[place] : Var(); }

Tensor lengths_of(const std::vector<Var>& x, size_t place) { return place > 0 ? x[place].value() : Tensor(); }

OpCase lstm_case(const char* name, std::vector<InputSpec> inputs, size_t hidden = 0, size_t cell = 0, size_t lengths = 0) {
  return {
      .name = name,
      .inputs = std::move(inputs),
      .run = [=](const std::vector<Var>& x) { return lstm(x[0], x[1], state_of(x, hidden), state_of(x, cell), lengths_of(x, lengths)); },
      .expect = lstm_reference(hidden, cell, lengths),
      .tolerance_scale = 4};
}
OpCase gru_case(const char* name, std::vector<InputSpec> inputs, size_t hidden = 0, size_t lengths = 0) {
  return {.name = name,
          .inputs = std::move(inputs),
          .run = [=](const std::vector<Var>& x) { return gru(x[0], x[1], x[2], state_of(x, hidden), lengths_of(x, lengths)); },
          .expect = gru_reference(hidden, lengths),
          .tolerance_scale = 4};
}

/// With the last states behind y.
OpCase lstm_case_of_states(const char* name, std::vector<InputSpec> inputs, size_t hidden, size_t cell, size_t lengths) {
  const auto run = [=](const std::vector<Var>& x) {
    const Tensor ends = lengths_of(x, lengths);
    const auto [y, last] = lstm_with_cell(x[0], x[1], state_of(x, hidden), state_of(x, cell), ends);
    return concat({y, unsqueeze(last_hidden(y, state_of(x, hidden), ends), 1), unsqueeze(last, 1)}, 1);
  };
  return {
      .name = name, .inputs = std::move(inputs), .run = run, .expect = lstm_reference(hidden, cell, lengths, true), .tolerance_scale = 4};
}
OpCase gru_case_of_states(const char* name, std::vector<InputSpec> inputs, size_t hidden, size_t lengths) {
  const auto run = [=](const std::vector<Var>& x) {
    const Tensor ends = lengths_of(x, lengths);
    const Var y = gru(x[0], x[1], x[2], state_of(x, hidden), ends);
    return concat({y, unsqueeze(last_hidden(y, state_of(x, hidden), ends), 1)}, 1);
  };
  return {.name = name, .inputs = std::move(inputs), .run = run, .expect = gru_reference(hidden, lengths, true), .tolerance_scale = 4};
}

/// Gates that are NaN in the padding.
InputSpec gates_with_nan(const Shape& shape, const std::vector<double>& ends) {
  const InputSpec gates = randn(shape);
  return {[=] {
    const Tensor x = gates.make();
    for (int64_t b = 0; b < x.dim(0); ++b) fill(x.select(0, b).slice(0, static_cast<int64_t>(ends[b]), x.dim(1)), std::nan(""));
    return x;
  }};
}

OpCase refused(const char* name, std::vector<InputSpec> inputs, std::function<Var(const std::vector<Var>&)> run, const char* message) {
  return {.name = name, .inputs = std::move(inputs), .run = std::move(run), .throws = message};
}

constexpr int64_t kRowsOfBench = 32, kUnitsOfBench = 256;

}  // namespace

OP_CASES(lstm) {
  add(lstm_case("small", {randn({3, 5, 16}), randn({16, 4}, 0.5)}));
  add(lstm_case("from_states", {randn({3, 5, 16}), randn({16, 4}, 0.5), randn({3, 4}), randn({3, 4})}, 2, 3));
  add(lstm_case("from_a_hidden_state", {randn({2, 3, 16}), randn({16, 4}, 0.5), randn({2, 4})}, 2));
  add(lstm_case("from_a_cell", {randn({2, 3, 16}), randn({16, 4}, 0.5), randn({2, 4})}, 0, 2));
  add(lstm_case("one_step", {randn({3, 1, 16}), randn({16, 4}, 0.5)}));
  add(lstm_case("one_step_from_states", {randn({3, 1, 16}), randn({16, 4}, 0.5), randn({3, 4}), randn({3, 4})}, 2, 3));
  add(lstm_case("one_sequence", {randn({1, 7, 12}), randn({12, 3}, 0.5)}));
  add(lstm_case("one_unit", {randn({2, 3, 4}), randn({4, 1})}));
  add(lstm_case("odd", {randn({2, 3, 76}), randn({76, 19}, 0.3)}));
  add(lstm_case("no_sequences", {randn({0, 3, 8}), randn({8, 2})}));
  add(lstm_case("strided",
                {transposed(randn({5, 3, 16}), 0, 1), transposed(randn({4, 16}, 0.5), 0, 1), sliced(randn({3, 6}), 1, 1, 5),
                 transposed(randn({4, 3}), 0, 1)},
                2, 3));
  add(lstm_case("rows_apart", {sliced(randn({3, 5, 20}), 2, 3, 19), randn({16, 4}, 0.5)}));
  const std::vector<double> ends{2, 0, 5, 1};
  add(lstm_case("lengths", {randn({4, 5, 16}), randn({16, 4}, 0.5), lengths(ends)}, 0, 0, 2));
  add(lstm_case("lengths_and_states", {randn({4, 5, 76}), randn({76, 19}, 0.3), randn({4, 19}), randn({4, 19}), lengths(ends)}, 2, 3, 4));
  add(lstm_case("lengths_before_nan", {gates_with_nan({4, 5, 16}, ends), randn({16, 4}, 0.5), lengths(ends)}, 0, 0, 2));
  add(lstm_case("lengths_of_no_sequences", {randn({0, 3, 8}), randn({8, 2}), lengths({})}, 0, 0, 2));
  const auto run = [](const std::vector<Var>& x) { return lstm(x[0], x[1], state_of(x, x.size() > 2 ? 2 : 0)); };
  add(refused("gates_of_two_axes", {randn({3, 16}), randn({16, 4})}, run, "lstm: needs gates [B, T, 4 H]"));
  add(refused("no_steps", {randn({3, 0, 16}), randn({16, 4})}, run, "of at least one step, got [3, 0, 16]"));
  add(refused("another_weight", {randn({3, 5, 16}), randn({12, 4})}, run, "needs a weight [16, 4] for gates [3, 5, 16], got [12, 4]"));
  add(refused("another_state", {randn({3, 5, 16}), randn({16, 4}), randn({5, 4})}, run, "needs the hidden state before the first step"));
  const auto with_lengths = [](const std::vector<Var>& x) { return lstm(x[0], x[1], {}, {}, x[2].value()); };
  add(refused("other_lengths", {randn({3, 5, 16}), randn({16, 4}), lengths({1, 2})}, with_lengths, "lstm: needs lengths i32 [3], got"));
  for (const int64_t steps : {64, 128, 256, 512})
    add({.name = "steps_" + std::to_string(steps),
         .inputs = {randn({kRowsOfBench, steps, 4 * kUnitsOfBench}), randn({4 * kUnitsOfBench, kUnitsOfBench}, 0.06)},
         .run = run,
         .bench = true});
}

OP_CASES(gru) {
  add(gru_case("small", {randn({3, 5, 12}), randn({12, 4}, 0.5), randn({4})}));
  add(gru_case("from_a_state", {randn({3, 5, 12}), randn({12, 4}, 0.5), randn({4}), randn({3, 4})}, 3));
  add(gru_case("one_step", {randn({3, 1, 12}), randn({12, 4}, 0.5), randn({4})}));
  add(gru_case("one_step_from_a_state", {randn({3, 1, 12}), randn({12, 4}, 0.5), randn({4}), randn({3, 4})}, 3));
  add(gru_case("one_sequence", {randn({1, 7, 9}), randn({9, 3}, 0.5), randn({3})}));
  add(gru_case("odd", {randn({2, 3, 57}), randn({57, 19}, 0.3), randn({19})}));
  add(gru_case("no_sequences", {randn({0, 3, 6}), randn({6, 2}), randn({2})}));
  add(gru_case("strided",
               {transposed(randn({5, 3, 12}), 0, 1), transposed(randn({4, 12}, 0.5), 0, 1), sliced(randn({6}), 0, 1, 5),
                transposed(randn({4, 3}), 0, 1)},
               3));
  const std::vector<double> ends{2, 0, 5, 1};
  add(gru_case("lengths", {randn({4, 5, 12}), randn({12, 4}, 0.5), randn({4}), lengths(ends)}, 0, 3));
  add(gru_case("lengths_and_a_state", {randn({4, 5, 57}), randn({57, 19}, 0.3), randn({19}), randn({4, 19}), lengths(ends)}, 3, 4));
  add(gru_case("lengths_before_nan", {gates_with_nan({4, 5, 12}, ends), randn({12, 4}, 0.5), randn({4}), lengths(ends)}, 0, 3));
  const auto run = [](const std::vector<Var>& x) { return gru(x[0], x[1], x[2], state_of(x, x.size() > 3 ? 3 : 0)); };
  add(refused("gates_of_an_lstm", {randn({3, 5, 16}), randn({16, 4}), randn({4})}, run, "gru: needs gates [B, T, 3 H]"));
  add(refused("another_bias", {randn({3, 5, 12}), randn({12, 4}), randn({12})}, run, "gru: needs a bias"));
  add(refused("another_state", {randn({3, 5, 12}), randn({12, 4}), randn({4}), randn({3, 3})}, run, "hidden state before the first step"));
  const auto with_lengths = [](const std::vector<Var>& x) { return gru(x[0], x[1], x[2], {}, x[3].value()); };
  add(refused("other_lengths", {randn({3, 5, 12}), randn({12, 4}), randn({4}), lengths({1, 2})}, with_lengths,
              "gru: needs lengths i32 [3], got"));
  for (const int64_t steps : {64, 512})
    add({.name = "steps_" + std::to_string(steps),
         .inputs = {randn({kRowsOfBench, steps, 3 * kUnitsOfBench}), randn({3 * kUnitsOfBench, kUnitsOfBench}, 0.06),
                    randn({kUnitsOfBench})},
         .run = run,
         .bench = true});
}

OP_CASES(recurrent_last_states) {
  const std::vector<double> ends{2, 0, 5, 1};
  add(lstm_case_of_states("lstm", {randn({3, 5, 16}), randn({16, 4}, 0.5)}, 0, 0, 0));
  add(lstm_case_of_states("lstm_from_states", {randn({3, 5, 16}), randn({16, 4}, 0.5), randn({3, 4}), randn({3, 4})}, 2, 3, 0));
  add(lstm_case_of_states("lstm_of_lengths", {randn({4, 5, 16}), randn({16, 4}, 0.5), lengths(ends)}, 0, 0, 2));
  add(lstm_case_of_states("lstm_of_lengths_from_states",
                          {randn({4, 5, 76}), randn({76, 19}, 0.3), randn({4, 19}), randn({4, 19}), lengths(ends)}, 2, 3, 4));
  add(gru_case_of_states("gru_from_a_state", {randn({3, 5, 12}), randn({12, 4}, 0.5), randn({4}), randn({3, 4})}, 3, 0));
  add(gru_case_of_states("gru_of_lengths", {randn({4, 5, 12}), randn({12, 4}, 0.5), randn({4}), lengths(ends)}, 0, 3));
  add(gru_case_of_states("gru_of_lengths_from_a_state",
                         {randn({4, 5, 57}), randn({57, 19}, 0.3), randn({19}), randn({4, 19}), lengths(ends)}, 3, 4));
}
