#include "autograd/ops/rotary.h"

namespace sluice {

Var rotary(const Var& x, int64_t rotated_heads, const Tensor& table) {
  return record(
      "rotary", rotary(x.value(), rotated_heads, table), {x}, {table}, rotated_heads,
      [](const Node& node, const Tensor& dy, Needs) { return Gradients{rotary_backward(dy, node.attribute<int64_t>(), node.saved[0])}; });
}

}  // namespace sluice
