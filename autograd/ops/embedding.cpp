#include "autograd/ops/embedding.h"

#include "core/ops/embedding.h"

namespace sluice {

Var embedding(const Tensor& ids, const Var& table) {
  return record("embedding", embedding(ids, table.value()), {table}, {ids}, table.dim(0), [](const Node& node, const Tensor& dy, Needs) {
    return Gradients{embedding_backward(node.saved[0], dy, node.attribute<int64_t>())};
  });
}

}  // namespace sluice
