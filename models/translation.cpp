#include "models/translation.h"

#include <cmath>

#include "layers/attention.h"
#include "layers/cross_entropy.h"
#include "layers/embedding.h"
#include "layers/normalization.h"
#include "models/feed_forward_nodes.h"

namespace sluice::models {

namespace {

using namespace layers;

void check(const TranslationOptions& options) {
  const auto positive = [](const char* key, int64_t value) { require(value > 0, "model.", key, ": needs a number > 0, got ", value); };
  positive("encoder_layers", options.encoder_layers);
  positive("decoder_layers", options.decoder_layers);
  positive("dim", options.dim);
  positive("heads", options.heads);
  positive("vocab", options.vocab);
  positive("source_context", options.source_context);
  positive("target_context", options.target_context);
  require(options.ffn >= 0, "model.ffn: needs a number >= 0 (0 = 4 * dim), got ", options.ffn);
  require(options.logit_clip >= 0, "model.logit_clip: needs a number >= 0 (0 = off), got ", options.logit_clip);
}

/// Adds the nodes of one model; Norm is LayerNorm or RMSNorm.
template <class Norm>
class Builder {
 public:
  explicit Builder(const TranslationOptions& options) : options_(options) {}

  Graph build() && {
    const Value source = graph_.input("source", {options_.source_context}, DType::i32), source_length = input_of_length("source_length");
    const Value target = graph_.input("target", {options_.target_context}, DType::i32), target_length = input_of_length("target_length");
    const Value labels = graph_.input("labels", {options_.target_context}, DType::i32);
    const Value memory = encoder(source, source_length);
    const Value y = decoder(target, target_length, memory, source_length);
    const Value logits = add_logits(y, target_length);
    share_embeddings();
    graph_.output(logits);
    graph_.loss(graph_.add("loss", CrossEntropy(options_.label_smoothing), {logits, labels}));
    return std::move(graph_);
  }

 private:
  Value input_of_length(const char* name) { return graph_.input(name, {}, DType::i32); }

  Value embedding(const char* name, Value tokens, int64_t context) {
    const double root = std::sqrt(static_cast<double>(options_.dim));
    return graph_.add(name,
                      TokenEmbedding({.vocabulary = options_.vocab,
                                      .width = options_.dim,
                                      .context = context,
                                      .positions = added_positions(options_.positions),
                                      .scale = root,
                                      .standard_deviation = 1 / root,
                                      .dropout = options_.dropout}),
                      tokens);
  }

  Value self_attention(const std::string& name, bool causal, int64_t context, Value x, Value lengths) {
    const MultiHeadAttention::Options of{.width = options_.dim,
                                         .heads = options_.heads,
                                         .causal = causal,
                                         .rotary = options_.positions == PositionEncoding::rotary,
                                         .context = context,
                                         .head_width = options_.head_width};
    return graph_.add(name, PreNormResidual(Norm(options_.dim), MultiHeadAttention(of), options_.dropout), {x, lengths});
  }

  Value feed_forward(const std::string& block, Value x, Value lengths) {
    const int64_t inner = options_.ffn ? options_.ffn : 4 * options_.dim;
    const int64_t divisor = options_.scale_initialization ? options_.encoder_layers + options_.decoder_layers : 1;
    const double deviation = 1 / (std::sqrt(static_cast<double>(inner)) * static_cast<double>(divisor));
    return add_feed_forward<Norm>(graph_, block, {options_.dim, inner, options_.activation, 0, deviation}, options_.dropout, x, lengths);
  }

  Value encoder(Value source, Value lengths) {
    Value x = embedding("source_embedding", source, options_.source_context);
    for (int64_t i = 0; i < options_.encoder_layers; ++i) {
      const std::string block = "encoder" + std::to_string(i);
      x = self_attention(block + ".attention", false, options_.source_context, x, lengths);
      x = feed_forward(block, x, lengths);
    }
    return graph_.add("encoder_norm", Norm(options_.dim), x);
  }

  Value decoder(Value target, Value lengths, Value memory, Value memory_lengths) {
    Value x = embedding("target_embedding", target, options_.target_context);
    for (int64_t i = 0; i < options_.decoder_layers; ++i) {
      const std::string block = "decoder" + std::to_string(i);
      x = self_attention(block + ".self_attention", true, options_.target_context, x, lengths);
      const CrossAttention heads({.width = options_.dim, .heads = options_.heads, .head_width = options_.head_width});
      x = graph_.add(block + ".cross_attention", PreNormResidual(Norm(options_.dim), heads, options_.dropout),
                     {x, memory, memory_lengths, lengths});
      x = feed_forward(block, x, lengths);
    }
    return graph_.add("decoder_norm", Norm(options_.dim), x);
  }

  Value add_logits(Value x, Value lengths) {
    const Linear linear = Linear(options_.dim, options_.vocab, options_.shared_embeddings == EmbeddingSharing::none).with_lengths();
    if (options_.logit_clip == 0) return graph_.add("logits", linear, {x, lengths});
    return graph_.add("logits", Sequence().then("", linear).then("clip", Clamp(options_.logit_clip)), {x, lengths});
  }

  void share_embeddings() {
    const std::string source = "source_embedding.tokens.weight", target = "target_embedding.tokens.weight";
    if (options_.shared_embeddings == EmbeddingSharing::none) return;
    graph_.tie(target, "logits.weight");
    if (options_.shared_embeddings == EmbeddingSharing::all) graph_.tie(source, target);
  }

  const TranslationOptions& options_;
  Graph graph_;
};

}  // namespace

layers::Graph translation_model(const TranslationOptions& options) {
  check(options);
  return options.norm == Normalization::layer_norm ? Builder<LayerNorm>(options).build() : Builder<RMSNorm>(options).build();
}

}  // namespace sluice::models
