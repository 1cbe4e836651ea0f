#include "autograd/ops/cumsum.h"

namespace sluice {

Var cumsum(const Var& x, int axis) {
  return record("cumsum", cumsum(x.value(), axis), {x}, {}, axis,
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{cumsum_backward(dy, node.attribute<int>())}; });
}

}  // namespace sluice
