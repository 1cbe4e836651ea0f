#include "layers/transformer_layer.h"

#include "layers/attention.h"
#include "layers/dropout.h"
#include "layers/normalization.h"

namespace sluice::layers {

namespace {

PreNormResidual self_attention(const TransformerLayerOptions& of, bool causal) {
  const MultiHeadAttention::Options options{.width = of.width, .heads = of.heads, .causal = causal, .head_width = of.head_width};
  return {LayerNorm(of.width), MultiHeadAttention(options), of.dropout};
}

PreNormResidual feed_forward(const TransformerLayerOptions& of) {
  const FeedForward::Options options{.width = of.width, .inner = of.inner ? of.inner : 4 * of.width, .activation = of.activation};
  return {LayerNorm(of.width), FeedForward(options), of.dropout};
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& options)
    : attention_(add("attention", self_attention(options, false))), feed_forward_(add("feed_forward", feed_forward(options))) {}

Var TransformerEncoderLayer::forward(const Call& call) const {
  std::vector<Var> inputs = call.inputs;
  inputs[0] = run(call, attention_, inputs);
  return run(call, feed_forward_, std::move(inputs));
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& options)
    : self_attention_(add("self_attention", self_attention(options, true))),
      cross_attention_(add(
          "cross_attention",
          PreNormResidual(LayerNorm(options.width), CrossAttention({options.width, options.heads, options.head_width}), options.dropout))),
      feed_forward_(add("feed_forward", feed_forward(options))) {}

Var TransformerDecoderLayer::forward(const Call& call) const {
  std::vector<Var> inputs = call.inputs;
  const auto own = [&inputs](const Var& x) { return inputs.size() > 3 ? std::vector<Var>{x, inputs[3]} : std::vector<Var>{x}; };
  inputs[0] = run(call, self_attention_, own(inputs[0]));
  return run(call, feed_forward_, own(run(call, cross_attention_, inputs)));
}

}  // namespace sluice::layers
