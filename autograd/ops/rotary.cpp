#include "autograd/ops/rotary.h"

namespace sluice {

namespace {

struct RotaryAttributes {
  int64_t rotated_heads, first_position;
  double base;
};

}  // namespace

Var rotary(const Var& x, int64_t rotated_heads, int64_t first_position, double base) {
  return record("rotary", rotary(x.value(), rotated_heads, first_position, base), {x}, {},
                RotaryAttributes{rotated_heads, first_position, base}, [](const Node& node, const Tensor& dy, Needs) {
                  const auto& at = node.attribute<RotaryAttributes>();
                  return Gradients{rotary_backward(dy, at.rotated_heads, at.first_position, at.base)};
                });
}

}  // namespace sluice
