#include "layers/attention.h"

#include "autograd/ops/attention.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/rotary.h"
#include "core/ops/copy.h"
#include "layers/attention_weights.h"
#include "layers/linear.h"

namespace sluice::layers {

namespace {

int64_t head_width_of(const char* layer, int64_t width, int64_t heads, int64_t head_width) {
  require(head_width >= 0, layer, ": needs a head width >= 0 (0 = width / heads), got ", head_width, "; change model.head_width");
  require(width > 0 && heads > 0 && (head_width > 0 || width % heads == 0), layer, ": needs heads that divide the width, got ", heads,
          " heads for width ", width, "; change model.heads or model.dim");
  return head_width > 0 ? head_width : width / heads;
}

/// Of a module that may get them as input `i`.
Tensor lengths_of(const Call& call, size_t i) { return call.inputs.size() > i ? call.inputs[i].value() : Tensor(); }

/// Heads [first, first + heads) of packed rows [B, T, ...], as [B, T, heads, width].
Tensor heads_of(const Tensor& packed, int64_t first, int64_t heads, int64_t width) {
  return packed.reshape({packed.dim(0), packed.dim(1), packed.dim(2) / width, width}).slice(2, first, first + heads).contiguous();
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Options& options) : options_(options) {
  const int64_t width = options.width, heads = options.heads;
  options_.head_width = head_width_of("MultiHeadAttention", width, heads, options.head_width);
  require(!options.rotary || options_.head_width % 2 == 0, "MultiHeadAttention: rotary positions need an even head width, got ",
          options_.head_width);
  require(!options.rotary || options.context > 0, "MultiHeadAttention: rotary positions need a context > 0, got ", options.context);
  const int64_t inner = heads * options_.head_width;
  qkv_ = add("qkv", Linear(width, 3 * inner, true, options.standard_deviation));
  out_ = add("out", Linear(inner, width, true, options.output_deviation));
}

std::vector<TableSpec> MultiHeadAttention::tables() const {
  if (!options_.rotary) return {};
  return {{options_.context, options_.head_width}};
}

Var MultiHeadAttention::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  Var qkv = run(call, qkv_, {x});
  if (options_.rotary) {
    const Var heads = reshape(qkv, {x.dim(0), x.dim(1), 3 * options_.heads, options_.head_width});
    const Tensor table = rows_of_table("MultiHeadAttention", call, call.first_position, x.dim(1));
    qkv = reshape(rotary(heads, 2 * options_.heads, table), qkv.shape());
  }
  if (call.cache) return run(call, out_, {attend_with_cache(call, qkv)});
  const Tensor lengths = lengths_of(call, 1);
  const AttentionMask mask{options_.causal, lengths, lengths};
  const auto part = [&](int64_t i) { return heads_of(qkv.value(), i * options_.heads, options_.heads, options_.head_width); };
  if (call.attention_weights) call.attention_weights->push_back(attention_weights(part(0), part(1), mask));
  return run(call, out_, {attention_packed(qkv, options_.heads, mask)});
}

Var MultiHeadAttention::attend_with_cache(const Call& call, const Var& qkv) const {
  KeyValueCache& cache = *call.cache;
  require(options_.causal, "MultiHeadAttention: generation needs causal attention, as tokens cannot attend to those that come later");
  const int64_t batch = qkv.dim(0), count = qkv.dim(1), heads = options_.heads, width = options_.head_width;
  const auto part = [&](int64_t i) { return heads_of(qkv.value(), i * heads, heads, width); };
  require(cache.length + count <= cache.capacity, "MultiHeadAttention: the key/value cache holds ", cache.capacity, " tokens, needs ",
          cache.length + count);
  if (!cache.keys.defined()) {
    const Shape shape{batch, cache.capacity, heads, width};
    cache.keys = empty(shape, qkv.value().dtype(), qkv.value().device_ptr());
    cache.values = empty(shape, qkv.value().dtype(), qkv.value().device_ptr());
  }
  copy(part(1), cache.keys.slice(1, cache.length, cache.length + count));
  copy(part(2), cache.values.slice(1, cache.length, cache.length + count));
  cache.length += count;
  const Var y =
      attention(Var(part(0)), Var(cache.keys.slice(1, 0, cache.length)), Var(cache.values.slice(1, 0, cache.length)), {options_.causal});
  return reshape(y, {batch, count, heads * width});
}

CrossAttention::CrossAttention(const Options& options)
    : heads_(options.heads), head_width_(head_width_of("CrossAttention", options.width, options.heads, options.head_width)) {
  const int64_t inner = heads_ * head_width_;
  q_ = add("q", Linear(options.width, inner));
  kv_ = add("kv", Linear(options.width, 2 * inner));
  out_ = add("out", Linear(inner, options.width, true, options.output_deviation));
}

Var CrossAttention::forward(const Call& call) const {
  const Var q = run(call, q_, {call.inputs[0]});
  const Tensor memory_lengths = lengths_of(call, 2);
  if (call.cache) return run(call, out_, {attend_with_cache(call, q, memory_lengths)});
  const Var kv = run(call, kv_, {call.inputs[1]});
  const AttentionMask mask{.query_lengths = lengths_of(call, 3), .key_lengths = memory_lengths};
  const auto heads = [&](const Var& packed) { return heads_of(packed.value(), 0, heads_, head_width_); };
  if (call.attention_weights) call.attention_weights->push_back(attention_weights(heads(q), heads(kv), mask));
  return run(call, out_, {cross_attention_packed(q, kv, heads_, mask)});
}

Var CrossAttention::attend_with_cache(const Call& call, const Var& q, const Tensor& memory_lengths) const {
  KeyValueCache& cache = *call.cache;
  if (!cache.keys.defined()) {
    const Tensor kv = run(call, kv_, {call.inputs[1]}).value();
    cache.keys = heads_of(kv, 0, heads_, head_width_);
    cache.values = heads_of(kv, heads_, heads_, head_width_);
    cache.length = kv.dim(1);
    cache.of_memory = true;
  }
  const Var y =
      attention(Var(heads_of(q.value(), 0, heads_, head_width_)), Var(cache.keys), Var(cache.values), {.key_lengths = memory_lengths});
  return reshape(y, q.shape());
}

}  // namespace sluice::layers
