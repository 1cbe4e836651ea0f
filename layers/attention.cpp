#include "layers/attention.h"

#include "autograd/ops/attention.h"
#include "autograd/ops/masked_attention.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/rotary.h"
#include "core/ops/copy.h"
#include "layers/attention_weights.h"
#include "layers/linear.h"

namespace sluice::layers {

namespace {

int64_t head_width_of(const char* layer, int64_t width, int64_t heads, int64_t head_width) {
  require(head_width >= 0, layer, ": needs a head width >= 0 (0 = width / heads), got ", head_width,
          "; change head_width (model.head_width)");
  require(width > 0 && heads > 0 && (head_width > 0 || width % heads == 0), layer, ": needs heads that divide the width, got ", heads,
          " heads for width ", width, "; change heads or width (model.heads, model.dim), or set head_width");
  return head_width > 0 ? head_width : width / heads;
}

int64_t key_heads_of(const char* layer, int64_t heads, int64_t key_heads) {
  require(key_heads >= 0 && (key_heads == 0 || heads % key_heads == 0), layer, ": needs key heads that divide the heads (0 = all), got ",
          key_heads, " for ", heads, " heads");
  return key_heads > 0 ? key_heads : heads;
}

}  // namespace

/// What a call's inputs from `first` on say of the pairs: lengths, `most` of them, then a mask with more axes.
struct GivenMasks {
  GivenMasks(const char* layer, const Call& call, size_t first, size_t most) {
    for (size_t i = first; i < call.inputs.size(); ++i) {
      const Var& input = call.inputs[i];
      require(!has_pairs() && (input.rank() >= 2 || lengths.size() < most), layer, ": needs at most ", most,
              " inputs of lengths, then at most one mask of pairs, got ", input.value(), " as input ", i);
      if (input.rank() < 2)
        lengths.push_back(input.value());
      else
        take_pairs(layer, call, input);
    }
    lengths.resize(most);
  }
  bool has_pairs() const { return added.value().defined() || allowed.defined(); }

  std::vector<Tensor> lengths;
  Var added;
  Tensor allowed;

 private:
  void take_pairs(const char* layer, const Call& call, const Var& mask) {
    require(is_floating(mask.dtype()) || mask.dtype() == DType::u8, layer, ": needs a mask of pairs in floats or u8, got ", mask);
    require(!call.cache, layer, ": needs no mask of pairs in generation, got ", mask.shape(), "; leave that input out");
    if (is_floating(mask.dtype()))
      added = mask;
    else
      allowed = mask.value();
  }
};

namespace {

/// What a projection reads: x and, where there are, the lengths of its samples.
std::vector<Var> with_lengths(const Var& x, const Tensor& lengths) {
  return lengths.defined() ? std::vector<Var>{x, Var(lengths)} : std::vector<Var>{x};
}

/// Heads [first, first + heads) of packed rows [B, T, ...], as [B, T, heads, width].
Var heads_of(const Var& packed, int64_t first, int64_t heads, int64_t width) {
  return slice(reshape(packed, {packed.dim(0), packed.dim(1), packed.dim(2) / width, width}), 2, first, first + heads);
}
Tensor heads_of(const Tensor& packed, int64_t first, int64_t heads, int64_t width) {
  return heads_of(Var(packed), first, heads, width).value().contiguous();
}

/// Looks at the weights where a call wants them.
void keep_weights(const Call& call, const Var& q, const Var& k, const Var& v, const AttentionMask& mask, const GivenMasks& given) {
  if (!call.attention_weights) return;
  if (!given.has_pairs()) return call.attention_weights->push_back(attention_weights(q.value(), k.value(), mask));
  const Tensor weights = masked_attention_forward(q.value(), k.value(), v.value(), mask, {given.added.value(), given.allowed}).weights;
  call.attention_weights->push_back(tensor_of(weights.to_vector(), weights.shape(), DType::f64));
}

/// By the op that the masks ask for, as [B, T, H N].
Var attend_to(const Var& q, const Var& k, const Var& v, const AttentionMask& mask, const GivenMasks& given) {
  const Var y = given.has_pairs() ? masked_attention(q, k, v, mask, given.added, given.allowed) : attention(q, k, v, mask);
  return reshape(y, {q.dim(0), q.dim(1), q.dim(2) * q.dim(3)});
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Options& options) : options_(options) {
  const int64_t width = options.width, heads = options.heads;
  options_.head_width = head_width_of("MultiHeadAttention", width, heads, options.head_width);
  options_.key_heads = key_heads_of("MultiHeadAttention", heads, options.key_heads);
  require(!options.rotary || options_.head_width % 2 == 0, "MultiHeadAttention: rotary positions need an even head width, got ",
          options_.head_width);
  require(!options.rotary || options.context > 0, "MultiHeadAttention: rotary positions need a context > 0, got ", options.context);
  const int64_t inner = heads * options_.head_width;
  qkv_ = add("qkv", Linear(width, inner + 2 * options_.key_heads * options_.head_width, true, options.standard_deviation).with_lengths());
  out_ = add("out", Linear(inner, width, true, options.output_deviation).with_lengths());
}

std::vector<TableSpec> MultiHeadAttention::tables() const {
  if (!options_.rotary) return {};
  return {{options_.context, options_.head_width}};
}

Var MultiHeadAttention::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  const GivenMasks given("MultiHeadAttention", call, 1, 1);
  Var qkv = run(call, qkv_, with_lengths(x, given.lengths[0]));
  if (options_.rotary) {
    const int64_t rotated = options_.heads + options_.key_heads;
    const Var heads = reshape(qkv, {x.dim(0), x.dim(1), rotated + options_.key_heads, options_.head_width});
    const Tensor table = rows_of_table("MultiHeadAttention", call, call.first_position, x.dim(1));
    qkv = reshape(rotary(heads, rotated, table), qkv.shape());
  }
  return run(call, out_, with_lengths(call.cache ? attend_with_cache(call, qkv) : attend(call, qkv, given), given.lengths[0]));
}

Var MultiHeadAttention::attend(const Call& call, const Var& qkv, const GivenMasks& given) const {
  const auto heads = options_.heads, key_heads = options_.key_heads;
  const AttentionMask mask{options_.causal, given.lengths[0], given.lengths[0]};
  const auto part = [&](int64_t first, int64_t count) { return heads_of(qkv, first, count, options_.head_width); };
  const bool is_packed = heads == key_heads && !given.has_pairs();
  if (is_packed && !call.attention_weights) return attention_packed(qkv, heads, mask);
  const Var q = part(0, heads), k = part(heads, key_heads), v = part(heads + key_heads, key_heads);
  keep_weights(call, q, k, v, mask, given);
  return is_packed ? attention_packed(qkv, heads, mask) : attend_to(q, k, v, mask, given);
}

Var MultiHeadAttention::attend_with_cache(const Call& call, const Var& qkv) const {
  KeyValueCache& cache = *call.cache;
  require(options_.causal, "MultiHeadAttention: generation needs causal attention, as tokens cannot attend to those that come later");
  const int64_t batch = qkv.dim(0), count = qkv.dim(1), heads = options_.heads, key_heads = options_.key_heads, width = options_.head_width;
  const auto part = [&](int64_t first, int64_t count_of_heads) { return heads_of(qkv.value(), first, count_of_heads, width); };
  require(cache.length + count <= cache.capacity, "MultiHeadAttention: the key/value cache holds ", cache.capacity, " tokens, needs ",
          cache.length + count);
  if (!cache.keys.defined()) {
    const Shape shape{batch, cache.capacity, key_heads, width};
    cache.keys = empty(shape, qkv.value().dtype(), qkv.value().device_ptr());
    cache.values = empty(shape, qkv.value().dtype(), qkv.value().device_ptr());
  }
  copy(part(heads, key_heads), cache.keys.slice(1, cache.length, cache.length + count));
  copy(part(heads + key_heads, key_heads), cache.values.slice(1, cache.length, cache.length + count));
  cache.length += count;
  const Var y = attention(Var(part(0, heads)), Var(cache.keys.slice(1, 0, cache.length)), Var(cache.values.slice(1, 0, cache.length)),
                          {options_.causal});
  return reshape(y, {batch, count, heads * width});
}

CrossAttention::CrossAttention(const Options& options)
    : heads_(options.heads),
      head_width_(head_width_of("CrossAttention", options.width, options.heads, options.head_width)),
      key_heads_(key_heads_of("CrossAttention", options.heads, options.key_heads)) {
  const int64_t inner = heads_ * head_width_;
  q_ = add("q", Linear(options.width, inner).with_lengths());
  kv_ = add("kv", Linear(options.width, 2 * key_heads_ * head_width_).with_lengths());
  out_ = add("out", Linear(inner, options.width, true, options.output_deviation).with_lengths());
}

Var CrossAttention::forward(const Call& call) const {
  const GivenMasks given("CrossAttention", call, 2, 2);
  const Tensor &memory_lengths = given.lengths[0], &lengths = given.lengths[1];
  const Var q = run(call, q_, with_lengths(call.inputs[0], lengths));
  const auto project = [&](const Var& y) { return run(call, out_, with_lengths(y, lengths)); };
  if (call.cache) return project(attend_with_cache(call, q, memory_lengths));
  const Var kv = run(call, kv_, with_lengths(call.inputs[1], memory_lengths));
  const AttentionMask mask{.query_lengths = lengths, .key_lengths = memory_lengths};
  const bool is_packed = heads_ == key_heads_ && !given.has_pairs();
  if (is_packed && !call.attention_weights) return project(cross_attention_packed(q, kv, heads_, mask));
  const Var queries = heads_of(q, 0, heads_, head_width_), keys = heads_of(kv, 0, key_heads_, head_width_);
  const Var values = heads_of(kv, key_heads_, key_heads_, head_width_);
  keep_weights(call, queries, keys, values, mask, given);
  return project(is_packed ? cross_attention_packed(q, kv, heads_, mask) : attend_to(queries, keys, values, mask, given));
}

Var CrossAttention::attend_with_cache(const Call& call, const Var& q, const Tensor& memory_lengths) const {
  KeyValueCache& cache = *call.cache;
  if (!cache.keys.defined()) {
    const Tensor kv = run(call, kv_, {call.inputs[1]}).value();
    cache.keys = heads_of(kv, 0, key_heads_, head_width_);
    cache.values = heads_of(kv, key_heads_, key_heads_, head_width_);
    cache.length = kv.dim(1);
    cache.of_memory = true;
  }
  const Var y =
      attention(Var(heads_of(q.value(), 0, heads_, head_width_)), Var(cache.keys), Var(cache.values), {.key_lengths = memory_lengths});
  return reshape(y, q.shape());
}

}  // namespace sluice::layers
