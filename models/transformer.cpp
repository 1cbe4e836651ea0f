#include "models/transformer.h"

#include <cmath>

#include "layers/attention.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "models/feed_forward_nodes.h"

namespace sluice::models {

namespace {

void check(const TransformerOptions& options) {
  const auto positive = [](const char* key, int64_t value) { require(value > 0, "model.", key, ": needs a number > 0, got ", value); };
  positive("layers", options.layers);
  positive("dim", options.dim);
  positive("heads", options.heads);
  positive("vocab", options.vocab);
  positive("context", options.context);
  require(options.ffn >= 0, "model.ffn: needs a number >= 0 (0 = 4 * dim), got ", options.ffn);
}

/// Adds the nodes of one model; Norm is LayerNorm or RMSNorm.
template <class Norm>
layers::Graph build(const TransformerOptions& options) {
  using namespace layers;
  const double deviation = options.tied_embeddings ? 0.02 : 0;  // GPT-2's start; else 1 / sqrt(width in)
  const double branches = std::sqrt(2.0 * static_cast<double>(options.layers));
  const int64_t inner = options.ffn ? options.ffn : 4 * options.dim;
  const auto output_deviation = [&](int64_t width) {
    return (deviation > 0 ? deviation : 1 / std::sqrt(static_cast<double>(width))) / branches;
  };

  Graph graph;
  const Value tokens = graph.input("tokens", {options.context}, DType::i32);
  const Value targets = graph.input("targets", {options.context}, DType::i32);
  const double row_deviation = options.tied_embeddings ? 0.02 : 1 / std::sqrt(static_cast<double>(options.dim));
  Value x = graph.add("embedding",
                      TokenEmbedding({.vocabulary = options.vocab,
                                      .width = options.dim,
                                      .context = options.context,
                                      .positions = added_positions(options.positions),
                                      .scale = options.tied_embeddings ? 1 : std::sqrt(static_cast<double>(options.dim)),
                                      .standard_deviation = row_deviation,
                                      .dropout = options.dropout}),
                      tokens);
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string block = "block" + std::to_string(i);
    x = graph.add(block + ".attention",
                  Residual(Sequence()
                               .then("norm", Norm(options.dim))
                               .then("heads", MultiHeadAttention({.width = options.dim,
                                                                  .heads = options.heads,
                                                                  .causal = true,
                                                                  .rotary = options.positions == PositionEncoding::rotary,
                                                                  .context = options.context,
                                                                  .standard_deviation = deviation,
                                                                  .output_deviation = output_deviation(options.dim)})),
                           options.dropout),
                  x);
    x = add_feed_forward<Norm>(graph, block, {options.dim, inner, options.activation, deviation, output_deviation(inner)}, options.dropout,
                               x);
  }
  x = graph.add("final_norm", Norm(options.dim), x);
  const Value logits = graph.add("logits", Linear(options.dim, options.vocab, !options.tied_embeddings, deviation), x);
  if (options.tied_embeddings) graph.tie("embedding.tokens.weight", "logits.weight");
  graph.output(logits);
  graph.loss(graph.add("loss", CrossEntropy(options.label_smoothing), {logits, targets}));
  return graph;
}

}  // namespace

std::optional<layers::Positions::Kind> added_positions(PositionEncoding encoding) {
  using Kind = layers::Positions::Kind;
  if (encoding == PositionEncoding::rotary) return std::nullopt;
  return encoding == PositionEncoding::learned ? Kind::learned : Kind::sinusoidal;
}

layers::Graph transformer_lm(const TransformerOptions& options) {
  check(options);
  return options.norm == Normalization::layer_norm ? build<layers::LayerNorm>(options) : build<layers::RMSNorm>(options);
}

}  // namespace sluice::models
