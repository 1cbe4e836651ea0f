#pragma once
#include "models/transformer.h"

namespace sluice::models {

/// Which tables of the vocabulary are one parameter: e of them are left.
enum class EmbeddingSharing {
  all,     ///< source embedding, target embedding and output projection (e = 1), as arXiv 1706.03762
  target,  ///< target embedding and output projection (e = 2)
  none,    ///< three (e = 3), and the output projection has a bias
};

/// A pre-LN encoder-decoder Transformer for translation, as in GPipe (arXiv 1811.06965, 5): T(L, H, A) is encoder_layers =
/// decoder_layers = L, ffn = H, heads = A, with dim = 1024 and heads of width 64.
struct TranslationOptions {
  int64_t encoder_layers = 6, decoder_layers = 6;
  int64_t dim = 512;  ///< width of the residual stream, D
  int64_t heads = 8;
  int64_t head_width = 64;                             ///< attention is heads * head_width wide, whatever dim is; 0 = dim / heads
  int64_t ffn = 0;                                     ///< inner width of the feed-forward layers, H; 0 = 4 * dim
  int64_t vocab = 32000;                               ///< of both languages, V
  int64_t source_context = 128, target_context = 128;  ///< the most tokens of a sample
  double dropout = 0;
  EmbeddingSharing shared_embeddings = EmbeddingSharing::all;
  PositionEncoding positions = PositionEncoding::sinusoidal;  ///< rotary: in self-attention alone
  Normalization norm = Normalization::layer_norm;
  layers::Activation::Kind activation = layers::Activation::Kind::relu;
  double label_smoothing = 0;
  /// The weights out of each feed-forward layer start divided by the number of layers, encoder's and decoder's, so that deep models train
  /// (GPipe, 5, after Fixup, arXiv 1901.09321).
  bool scale_initialization = true;
  double logit_clip = 0;  ///< logits beyond +-this are cut off, without a gradient (layers::Clamp); 0 = off
};

/// Graph   inputs, in this order: "source" (i32 [S]), "source_length" (i32), "target" (i32 [T], what the decoder reads),
///         "target_length" (i32), "labels" (i32 [T], what it should say; -100 counts nothing). Samples are padded at their ends to
///         S = source_context and T = target_context, or to any shorter lengths that a batch shares.
///         Nodes "source_embedding", "encoder0.attention", "encoder0.feed_forward_in", "encoder0.feed_forward_out", ..., "encoder_norm",
///         "target_embedding", "decoder0.self_attention", "decoder0.cross_attention", "decoder0.feed_forward_in",
///         "decoder0.feed_forward_out", ..., "decoder_norm", "logits" (the graph's output) and "loss". Every decoder layer reads the
///         value of "encoder_norm".
/// Padding where labels are -100 changes neither the loss nor any gradient.
/// Parameters, with a = heads * head_width, Le and Ld layers, and layer norms:
///   Le * (4 D a + 2 D H + 3 a + H + 6 D) + Ld * (8 D a + 2 D H + 6 a + H + 9 D) + 4 D + e V D (+ V where e = 3);
///   learned positions add (S + T) * D, and RMS norms have (2 Le + 3 Ld + 2) * D fewer.
/// Errors  UsageError naming the option.
layers::Graph translation_model(const TranslationOptions& options);

}  // namespace sluice::models
