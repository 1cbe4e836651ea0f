#pragma once
#include <cstdint>

#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"

namespace sluice::models {

enum class PositionEncoding { learned, sinusoidal, rotary };
/// What is added to the tokens; rotary positions turn queries and keys instead.
std::optional<layers::Positions::Kind> added_positions(PositionEncoding encoding);
enum class Normalization { layer_norm, rms_norm };

/// A pre-LN decoder language model.
struct TransformerOptions {
  int64_t layers = 6;
  int64_t dim = 384;  ///< width of the residual stream, D
  int64_t heads = 6;  ///< divides dim
  int64_t ffn = 0;    ///< inner width of the feed-forward layers; 0 = 4 * dim
  int64_t vocab = 256;
  int64_t context = 256;  ///< tokens of a training sample, T
  double dropout = 0;
  bool tied_embeddings = true;  ///< the output projection is the token embedding; then it has no bias
  PositionEncoding positions = PositionEncoding::learned;
  Normalization norm = Normalization::layer_norm;
  layers::Activation::Kind activation = layers::Activation::Kind::gelu_tanh;
  double label_smoothing = 0;
};

/// Graph   inputs "tokens" and "targets" (i32 [T]); nodes "embedding", "block0.attention", "block0.feed_forward_in",
///         "block0.feed_forward_out", ..., "final_norm", "logits" (the graph's output) and "loss".
/// Parameters  with d dim, h ffn, V vocab, untied, sinusoidal, layernorm: L (4d^2 + 2dh + 9d + h) + 2Vd + V + 2d, the paper's Transformer-L
///             (arXiv 1811.06965 table 1). Learned positions, tied: GPT-2's counts.
/// Errors  UsageError for sizes <= 0 and heads that do not divide dim.
layers::Graph transformer_lm(const TransformerOptions& options);

}  // namespace sluice::models
