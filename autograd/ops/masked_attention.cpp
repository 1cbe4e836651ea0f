#include "autograd/ops/masked_attention.h"

namespace sluice {

namespace {

/// Not deferred: all come from the same scores.
Gradients masked_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const auto& shape = node.attribute<Shape>();
  auto [dq, dk, dv, dadded] =
      masked_attention_backward(node.saved[0], node.saved[1], node.saved[2], node.saved[3], dy, needs[3] ? &shape : nullptr);
  return {std::move(dq), std::move(dk), std::move(dv), std::move(dadded)};
}

}  // namespace

Var masked_attention(const Var& q, const Var& k, const Var& v, const AttentionMask& mask, const Var& added, const Tensor& allowed) {
  auto [y, weights] = masked_attention_forward(q.value(), k.value(), v.value(), mask, {added.value(), allowed});
  return record("masked_attention", y, {q, k, v, added}, {q.value(), k.value(), v.value(), weights},
                added.value().defined() ? added.shape() : Shape(), masked_gradients);
}

}  // namespace sluice
