#include "autograd/ops/attention.h"

namespace sluice {

namespace {

struct PackedAttributes {
  int64_t heads;
  bool causal;
};

struct PackedViews {
  PackedViews(const Tensor& packed, int64_t heads) {
    require(packed.rank() == 3 && heads > 0 && packed.dim(2) % (3 * heads) == 0, "attention: needs qkv [B, T, 3 x heads x width] for ",
            heads, " heads, got ", packed.shape());
    const Tensor all = packed.reshape({packed.dim(0), packed.dim(1), 3 * heads, packed.dim(2) / (3 * heads)});
    q = all.slice(2, 0, heads);
    k = all.slice(2, heads, 2 * heads);
    v = all.slice(2, 2 * heads, 3 * heads);
  }
  Tensor q, k, v;
};

/// Not deferred: one kernel makes all three from the same scores.
Gradients attention_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &q = node.saved[0], &k = node.saved[1], &v = node.saved[2];
  Gradients gradients(3);
  for (size_t i = 0; i < 3; ++i)
    if (needs[i]) gradients[i] = empty_like(node.saved[i]);
  attention_backward(q, k, v, {node.saved[3], node.saved[4]}, dy, node.attribute<bool>(), gradients[0], gradients[1], gradients[2]);
  return gradients;
}

Gradients packed_gradients(const Node& node, const Tensor& dy, Needs) {
  const auto& at = node.attribute<PackedAttributes>();
  const Tensor& qkv = node.saved[0];
  const Tensor dqkv = empty_like(qkv);
  const PackedViews views(qkv, at.heads), gradients(dqkv, at.heads);
  attention_backward(views.q, views.k, views.v, {node.saved[1], node.saved[2]}, dy.contiguous().reshape(views.q.shape()), at.causal,
                     gradients.q, gradients.k, gradients.v);
  return {dqkv};
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, bool causal) {
  auto [y, log_sum_exp] = attention_forward(q.value(), k.value(), v.value(), causal);
  return record("attention", y, {q, k, v}, {q.value(), k.value(), v.value(), y, log_sum_exp}, causal, attention_gradients);
}

Var attention_packed(const Var& qkv, int64_t heads, bool causal) {
  const Tensor packed = qkv.value().contiguous();
  const PackedViews views(packed, heads);
  auto [y, log_sum_exp] = attention_forward(views.q, views.k, views.v, causal);
  const Tensor flat = y.reshape({packed.dim(0), packed.dim(1), packed.dim(2) / 3});
  return record("attention_packed", flat, {qkv}, {packed, y, log_sum_exp}, PackedAttributes{heads, causal}, packed_gradients);
}

}  // namespace sluice
