#include "autograd/ops/embedding.h"

#include "core/ops/embedding.h"

namespace sluice {

namespace {

/// Deferred: ids and dy stay, less than a gradient of the whole table; and only in W may it go straight into the table's sums.
Gradients embedding_gradients(const Node& node, const Tensor& dy, Needs) {
  const Tensor sums = node.accumulator_of(0);
  if (!sums.defined()) return {embedding_backward(node.saved[0], dy, node.attribute<int64_t>())};
  embedding_backward_into(node.saved[0], dy, sums);
  return {sums};
}

}  // namespace

Var embedding(const Tensor& ids, const Var& table) {
  return record("embedding", embedding(ids, table.value()), {table, ids}, {ids}, table.dim(0), embedding_gradients, {Needs::of(0)});
}

}  // namespace sluice
