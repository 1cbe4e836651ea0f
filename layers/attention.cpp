#include "layers/attention.h"

#include "autograd/ops/attention.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/rotary.h"
#include "core/ops/copy.h"
#include "layers/linear.h"

namespace sluice::layers {

MultiHeadAttention::MultiHeadAttention(const Options& options) : options_(options) {
  const int64_t width = options.width, heads = options.heads;
  require(width > 0 && heads > 0 && width % heads == 0, "MultiHeadAttention: needs heads that divide the width, got ", heads,
          " heads for width ", width, "; change model.heads or model.dim");
  require(!options.rotary || width / heads % 2 == 0, "MultiHeadAttention: rotary positions need an even head width, got ", width / heads);
  require(!options.rotary || options.context > 0, "MultiHeadAttention: rotary positions need a context > 0, got ", options.context);
  qkv_ = add("qkv", Linear(width, 3 * width, true, options.standard_deviation));
  out_ = add("out", Linear(width, width, true, options.output_deviation));
}

std::vector<TableSpec> MultiHeadAttention::tables() const {
  if (!options_.rotary) return {};
  return {{options_.context, options_.width / options_.heads}};
}

Var MultiHeadAttention::forward(const Call& call) const {
  const Var& x = call.inputs[0];
  Var qkv = run(call, qkv_, {x});
  if (options_.rotary) {
    const int64_t width = options_.width / options_.heads;
    const Var heads = reshape(qkv, {x.dim(0), x.dim(1), 3 * options_.heads, width});
    const Tensor table = rows_of_table("MultiHeadAttention", call, call.first_position, x.dim(1));
    qkv = reshape(rotary(heads, 2 * options_.heads, table), qkv.shape());
  }
  const Var mixed = call.cache ? attend_with_cache(call, qkv) : attention_packed(qkv, static_cast<int>(options_.heads), options_.causal);
  return run(call, out_, {mixed});
}

Var MultiHeadAttention::attend_with_cache(const Call& call, const Var& qkv) const {
  KeyValueCache& cache = *call.cache;
  require(options_.causal, "MultiHeadAttention: generation needs causal attention, as tokens cannot attend to those that come later");
  const int64_t batch = qkv.dim(0), count = qkv.dim(1), width = options_.width / options_.heads;
  const Tensor parts = qkv.value().reshape({batch, count, 3, options_.heads, width});
  const auto part = [&](int64_t i) { return parts.slice(2, i, i + 1).contiguous().reshape({batch, count, options_.heads, width}); };
  require(cache.length + count <= cache.capacity, "MultiHeadAttention: the key/value cache holds ", cache.capacity, " tokens, needs ",
          cache.length + count);
  if (!cache.keys.defined()) {
    const Shape shape{batch, cache.capacity, options_.heads, width};
    cache.keys = empty(shape, parts.dtype(), parts.device_ptr());
    cache.values = empty(shape, parts.dtype(), parts.device_ptr());
  }
  copy(part(1), cache.keys.slice(1, cache.length, cache.length + count));
  copy(part(2), cache.values.slice(1, cache.length, cache.length + count));
  cache.length += count;
  const Var y =
      attention(Var(part(0)), Var(cache.keys.slice(1, 0, cache.length)), Var(cache.values.slice(1, 0, cache.length)), options_.causal);
  return reshape(y, {batch, count, options_.width});
}

}  // namespace sluice::layers
