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

/// A call's inputs from `first` on: lengths, then masks of pairs, `most` of each.
struct Masks {
  Masks(const char* layer, const Call& call, size_t first, size_t most) {
    for (size_t i = first; i < call.inputs.size(); ++i) {
      const Var& input = call.inputs[i];
      auto& kind = input.rank() < 2 ? lengths : pairs;
      require(kind.size() < most && (pairs.empty() || &kind == &pairs), layer, ": needs at most ", most,
              " inputs of lengths, then at most ", most, " masks of pairs, got ", input, " as input ", i);
      kind.push_back(input);
    }
  }

  std::vector<Var> lengths, pairs;
};

/// Adds the one of that number, if there is one.
void append(std::vector<Var>& inputs, const std::vector<Var>& list, size_t number) {
  if (number < list.size()) inputs.push_back(list[number]);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& options)
    : attention_(add("attention", self_attention(options, false))), feed_forward_(add("feed_forward", feed_forward(options))) {}

Var TransformerEncoderLayer::forward(const Call& call) const {
  const Masks masks("TransformerEncoderLayer", call, 1, 1);
  const Var attended = run(call, attention_, call.inputs);
  std::vector<Var> fed{attended};
  append(fed, masks.lengths, 0);
  return run(call, feed_forward_, std::move(fed));
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& options)
    : self_attention_(add("self_attention", self_attention(options, true))),
      cross_attention_(add(
          "cross_attention",
          PreNormResidual(LayerNorm(options.width), CrossAttention({options.width, options.heads, options.head_width}), options.dropout))),
      feed_forward_(add("feed_forward", feed_forward(options))) {}

Var TransformerDecoderLayer::forward(const Call& call) const {
  const Masks masks("TransformerDecoderLayer", call, 2, 2);
  std::vector<Var> own{call.inputs[0]}, of_memory{Var(), call.inputs[1]};
  append(own, masks.lengths, 1);
  std::vector<Var> fed = own;
  append(own, masks.pairs, 0);
  for (const size_t number : {0, 1}) append(of_memory, masks.lengths, number);
  append(of_memory, masks.pairs, 1);
  of_memory[0] = run(call, self_attention_, std::move(own));
  fed[0] = run(call, cross_attention_, std::move(of_memory));
  return run(call, feed_forward_, std::move(fed));
}

}  // namespace sluice::layers
