#include "autograd/ops/embedding.h"

#include "core/ops/embedding.h"

namespace sluice {

Var embedding(const Tensor& ids, const Var& table) {
  return record("embedding", embedding(ids, table.value()), {table}, {ids}, table.dim(0), [](const Node& node, const Tensor& dy, Needs) {
    const Tensor sums = node.accumulator_of(0);
    if (!sums.defined()) return Gradients{embedding_backward(node.saved[0], dy, node.attribute<int64_t>())};
    embedding_backward_into(node.saved[0], dy, sums);
    return Gradients{sums};
  });
}

}  // namespace sluice
