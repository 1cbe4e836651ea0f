#include "autograd/ops/recurrent.h"

namespace sluice {

namespace {

/// Not deferred: the walk through time gives all of them.
Gradients lstm_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const auto& saved = node.saved;
  auto [gates, weight, before] =
      lstm_backward(saved[0], {saved[1], saved[2]}, {saved[3], saved[4], saved[5]}, dy, {needs[1], needs[2], needs[3]});
  return {std::move(gates), std::move(weight), std::move(before.hidden), std::move(before.cell)};
}

Gradients gru_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const auto& saved = node.saved;
  auto [gates, weight, bias, before] = gru_backward(saved[0], saved[1], {saved[2], saved[3]}, dy, {needs[1], needs[2], needs[3]});
  return {std::move(gates), std::move(weight), std::move(bias), std::move(before)};
}

}  // namespace

Var lstm(const Var& gates, const Var& weight, const Var& hidden, const Var& cell) {
  const auto [y, cells, activated] = lstm_forward(gates.value(), weight.value(), {hidden.value(), cell.value()});
  return record("lstm", y, {gates, weight, hidden, cell}, {weight.value(), hidden.value(), cell.value(), y, cells, activated}, {},
                lstm_gradients);
}

Var gru(const Var& gates, const Var& weight, const Var& bias, const Var& hidden) {
  const auto [y, activated] = gru_forward(gates.value(), weight.value(), bias.value(), hidden.value());
  return record("gru", y, {gates, weight, bias, hidden}, {weight.value(), hidden.value(), y, activated}, {}, gru_gradients);
}

}  // namespace sluice
