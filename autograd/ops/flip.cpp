#include "autograd/ops/flip.h"

namespace sluice {

Var flip(const Var& x, const std::vector<int>& axes) {
  return record_moved("flip", flip(x.value(), axes), {x}, axes,
                      [](const Node& node, const Tensor& dy, Needs) { return Gradients{flip(dy, node.attribute<std::vector<int>>())}; });
}

Var flip_items(const Var& x, const Tensor& lengths) {
  return record("flip_items", flip_items(x.value(), lengths), {x}, {lengths}, {},
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{flip_items(dy, node.saved[0])}; });
}

}  // namespace sluice
