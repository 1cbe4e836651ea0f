#include "autograd/ops/recurrent.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/gather.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/select.h"
#include "autograd/ops/views.h"
#include "core/ops/comparison.h"
#include "core/ops/concat.h"
#include "core/ops/copy.h"
#include "core/ops/padding.h"

namespace sluice {

namespace {

Tensor of_items(const Tensor& dy, const Tensor& lengths) { return lengths.defined() ? without_padding(dy, lengths) : dy; }

/// Not deferred: the walk through time gives all of them. A row of dy behind those of y is the gradient of the last cell.
Gradients lstm_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const auto& saved = node.saved;
  const int64_t steps = saved[3].dim(1);
  const Tensor dcell = dy.dim(1) > steps ? dy.select(1, steps) : Tensor();
  auto [gates, weight, before] = lstm_backward(saved[0], {saved[1], saved[2]}, {saved[3], saved[4], saved[5]},
                                               of_items(dy.slice(1, 0, steps), saved[6]), {needs[1], needs[2], needs[3]}, dcell);
  return {std::move(gates), std::move(weight), std::move(before.hidden), std::move(before.cell)};
}

Gradients gru_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const auto& saved = node.saved;
  auto [gates, weight, bias, before] =
      gru_backward(saved[0], saved[1], {saved[2], saved[3]}, of_items(dy, saved[4]), {needs[1], needs[2], needs[3]});
  return {std::move(gates), std::move(weight), std::move(bias), std::move(before)};
}

/// `y` is that of the result, or it and more behind.
Var record_lstm(const char* op, Tensor y, const LstmResult& of, const std::vector<Var>& inputs, const Tensor& lengths) {
  std::vector<Tensor> saved{inputs[1].value(), inputs[2].value(), inputs[3].value(), of.y, of.cells, of.activated, lengths};
  return record(op, std::move(y), inputs, std::move(saved), {}, lstm_gradients);
}

}  // namespace

Var lstm(const Var& gates, const Var& weight, const Var& hidden, const Var& cell, const Tensor& lengths) {
  const LstmResult result = lstm_forward(gates.value(), weight.value(), {hidden.value(), cell.value()}, lengths);
  return record_lstm("lstm", result.y, result, {gates, weight, hidden, cell}, lengths);
}

LstmVar lstm_with_cell(const Var& gates, const Var& weight, const Var& hidden, const Var& cell, const Tensor& lengths) {
  LstmResult result = lstm_forward(gates.value(), weight.value(), {hidden.value(), cell.value()}, lengths);
  const int64_t steps = result.y.dim(1);
  const Tensor last = cast(result.cells.slice(1, steps - 1, steps), result.y.dtype()), both = concat({result.y, last}, 1);
  result.y = both.slice(1, 0, steps);
  const Var recorded = record_lstm("lstm_with_cell", both, result, {gates, weight, hidden, cell}, lengths);
  return {slice(recorded, 1, 0, steps), select(recorded, 1, steps)};
}

Var gru(const Var& gates, const Var& weight, const Var& bias, const Var& hidden, const Tensor& lengths) {
  const auto [y, activated] = gru_forward(gates.value(), weight.value(), bias.value(), hidden.value(), lengths);
  return record("gru", y, {gates, weight, bias, hidden}, {weight.value(), hidden.value(), y, activated, lengths}, {}, gru_gradients);
}

Var last_hidden(const Var& y, const Var& before, const Tensor& lengths) {
  if (!lengths.defined()) return select(y, 1, -1);
  check_lengths("last_hidden", lengths, y.dim(0));
  const Tensor counts = lengths.contiguous().reshape({y.dim(0), 1}), has_items = greater(counts, 0);
  const Tensor last = where(has_items, sub(counts, 1), 0).unsqueeze(2).expand({y.dim(0), 1, y.dim(2)});
  const Var after = squeeze(gather(y, 1, last), 1);
  return before.value().defined() ? where(has_items, after, before) : after;
}

}  // namespace sluice
