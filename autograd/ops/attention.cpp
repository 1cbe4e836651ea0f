#include "autograd/ops/attention.h"

namespace sluice {

namespace {

struct PackedAttributes {
  int64_t heads;
  bool causal;
  auto fields() const { return std::tie(heads, causal); }
};

/// Part i of the `parts` that lie packed in rows [B, T, parts x heads x width], as [B, T, heads, width].
Tensor part_of(const Tensor& packed, int64_t i, int64_t parts, int64_t heads) {
  const char* const names[] = {"q", "kv", "qkv"};
  require(packed.rank() == 3 && heads > 0 && packed.dim(2) % (parts * heads) == 0, "attention: needs ", names[parts - 1], " [B, T, ", parts,
          " x heads x width] for ", heads, " heads, got ", packed.shape());
  const Tensor all = packed.reshape({packed.dim(0), packed.dim(1), parts * heads, packed.dim(2) / (parts * heads)});
  return all.slice(2, i * heads, (i + 1) * heads);
}

struct PackedViews {
  PackedViews(const Tensor& qkv, int64_t heads)
      : q(part_of(qkv, 0, 3, heads)), k(part_of(qkv, 1, 3, heads)), v(part_of(qkv, 2, 3, heads)) {}
  PackedViews(const Tensor& of_q, const Tensor& kv, int64_t heads)
      : q(of_q.defined() ? part_of(of_q, 0, 1, heads) : of_q),
        k(kv.defined() ? part_of(kv, 0, 2, heads) : kv),
        v(kv.defined() ? part_of(kv, 1, 2, heads) : kv) {}
  Tensor q, k, v;
};

/// The mask of a node that saved the lengths from `first`.
AttentionMask mask_of(const Node& node, bool causal, size_t first) { return {causal, node.saved[first], node.saved[first + 1]}; }

/// Not deferred: one kernel makes all three from the same scores.
Gradients attention_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &q = node.saved[0], &k = node.saved[1], &v = node.saved[2];
  Gradients gradients(3);
  for (size_t i = 0; i < 3; ++i)
    if (needs[i]) gradients[i] = empty_like(node.saved[i]);
  attention_backward(q, k, v, {node.saved[3], node.saved[4]}, dy, mask_of(node, node.attribute<bool>(), 5), gradients[0], gradients[1],
                     gradients[2]);
  return gradients;
}

Gradients packed_gradients(const Node& node, const Tensor& dy, Needs) {
  const auto& at = node.attribute<PackedAttributes>();
  const Tensor& qkv = node.saved[0];
  const Tensor dqkv = empty_like(qkv);
  const PackedViews views(qkv, at.heads), gradients(dqkv, at.heads);
  attention_backward(views.q, views.k, views.v, {node.saved[1], node.saved[2]}, dy.contiguous().reshape(views.q.shape()),
                     mask_of(node, at.causal, 3), gradients.q, gradients.k, gradients.v);
  return {dqkv};
}

Gradients cross_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const auto& at = node.attribute<PackedAttributes>();
  Gradients made{needs[0] ? empty_like(node.saved[0]) : Tensor(), needs[1] ? empty_like(node.saved[1]) : Tensor()};
  const PackedViews views(node.saved[0], node.saved[1], at.heads), gradients(made[0], made[1], at.heads);
  attention_backward(views.q, views.k, views.v, {node.saved[2], node.saved[3]}, dy.contiguous().reshape(views.q.shape()),
                     mask_of(node, at.causal, 4), gradients.q, gradients.k, gradients.v);
  return made;
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, const AttentionMask& mask) {
  auto [y, log_sum_exp] = attention_forward(q.value(), k.value(), v.value(), mask);
  return record("attention", y, {q, k, v}, {q.value(), k.value(), v.value(), y, log_sum_exp, mask.query_lengths, mask.key_lengths},
                mask.causal, attention_gradients);
}

Var attention_packed(const Var& qkv, int64_t heads, const AttentionMask& mask) {
  const Tensor packed = qkv.value().contiguous();
  const PackedViews views(packed, heads);
  auto [y, log_sum_exp] = attention_forward(views.q, views.k, views.v, mask);
  const Tensor flat = y.reshape({packed.dim(0), packed.dim(1), packed.dim(2) / 3});
  return record("attention_packed", flat, {qkv}, {packed, y, log_sum_exp, mask.query_lengths, mask.key_lengths},
                PackedAttributes{heads, mask.causal}, packed_gradients);
}

Var cross_attention_packed(const Var& q, const Var& kv, int64_t heads, const AttentionMask& mask) {
  const Tensor queries = q.value().contiguous(), packed = kv.value().contiguous();
  const PackedViews views(queries, packed, heads);
  auto [y, log_sum_exp] = attention_forward(views.q, views.k, views.v, mask);
  return record("cross_attention_packed", y.reshape(queries.shape()), {q, kv},
                {queries, packed, y, log_sum_exp, mask.query_lengths, mask.key_lengths}, PackedAttributes{heads, mask.causal},
                cross_gradients);
}

}  // namespace sluice
