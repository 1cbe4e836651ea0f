#include "autograd/ops/select.h"

#include "autograd/ops/broadcast_gradient.h"

namespace sluice {

Var where(const Tensor& condition, const Var& a, const Var& b) {
  return record("where", where(condition, a.value(), b.value()), {a, b}, {condition}, shapes_of(a, b),
                [](const Node& node, const Tensor& dy, Needs needs) {
                  const auto& [a_shape, b_shape] = node.attribute<Shapes>();
                  return Gradients{needs[0] ? summed(node, 0, where(node.saved[0], dy, 0), a_shape) : Tensor(),
                                   needs[1] ? summed(node, 1, where(node.saved[0], 0, dy), b_shape) : Tensor()};
                });
}

Var where(const Tensor& condition, const Var& a, double b) { return where(condition, a, Var(number_like("where", a.value(), b))); }
Var where(const Tensor& condition, double a, const Var& b) { return where(condition, Var(number_like("where", b.value(), a)), b); }

Var masked_fill(const Var& x, const Tensor& mask, double number) {
  return record("masked_fill", masked_fill(x.value(), mask, number), {x}, {mask}, {},
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{masked_fill(dy, node.saved[0], 0)}; });
}

Var tril(const Var& x, int64_t diagonal) {
  return record("tril", tril(x.value(), diagonal), {x}, {}, diagonal,
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{tril(dy, node.attribute<int64_t>())}; });
}

Var triu(const Var& x, int64_t diagonal) {
  return record("triu", triu(x.value(), diagonal), {x}, {}, diagonal,
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{triu(dy, node.attribute<int64_t>())}; });
}

}  // namespace sluice
