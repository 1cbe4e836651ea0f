#include "autograd/ops/flip.h"

namespace sluice {

Var flip(const Var& x, const std::vector<int>& axes) {
  return record("flip", flip(x.value(), axes), {x}, {}, axes,
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{flip(dy, node.attribute<std::vector<int>>())}; });
}

}  // namespace sluice
