#pragma once
#include "layers/feed_forward.h"

namespace sluice::layers {

struct TransformerLayerOptions {
  int64_t width, heads;
  int64_t inner = 0;       ///< of the feed-forward layer; 0 = 4 * width
  int64_t head_width = 0;  ///< 0 = width / heads
  Activation::Kind activation = Activation::Kind::relu;
  double dropout = 0;  ///< of every branch
};

/// A pre-norm encoder layer: self-attention and a feed-forward layer, each with a layer norm before and a residual connection around it.
/// Inputs  {x}, then lengths and a mask of pairs, if wanted, as MultiHeadAttention; without these tokens see all tokens of their sample.
/// Shape   x [B, T, width] -> the same. Parameters of "attention" and "feed_forward", each with its "norm".
class TransformerEncoderLayer : public Composite {
 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  InputCount input_count() const override { return {1, 3}; }
  Var forward(const Call& call) const override;

 private:
  int attention_, feed_forward_;
};

/// A pre-norm decoder layer: causal self-attention, attention to a memory, and a feed-forward layer.
/// Inputs  {x, memory}, {x, memory, memory_lengths} or {x, memory, memory_lengths, lengths}, as CrossAttention. Then up to two masks of
///         pairs, if wanted: the first is of x with itself, beside causality, the second of x with the memory. Generation refuses them.
/// Shape   x [B, T, width], memory [B, S, width] -> x's. Parameters of "self_attention", "cross_attention" and "feed_forward".
class TransformerDecoderLayer : public Composite {
 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  InputCount input_count() const override { return {2, 6}; }
  Var forward(const Call& call) const override;

 private:
  int self_attention_, cross_attention_, feed_forward_;
};

}  // namespace sluice::layers
