#pragma once
#include "layers/module.h"

namespace sluice::layers {

// A mask of pairs, the last input of an attention, is [T, S], [B, T, S] or [B, H, T, S], where B and H may be 1. In u8 it says which tokens see which:
// those where it is not 0. Floats are added to the scores before the softmax, and get a gradient. A token that sees none gives zeros before
// the last projection. With such a mask the attention is not fused; see core/ops/masked_attention.h.

struct GivenMasks;

/// Multi-head self-attention: one projection to queries, keys and values, attention, one projection back. arXiv 1706.03762.
/// Inputs  {x}, then lengths and a mask of pairs, if wanted: tokens from a sample's length on are padding, which no token attends to and which
///         attends to none. What y holds for padding depends on the device (Linear), so nothing may depend on it.
/// Shape   x [B, T, width], lengths i32 [B] -> y like x. With H heads of width N, and G for keys and values: qkv.weight [(H + 2 G) N, width],
///         out.weight [width, H N], with biases.
/// With Call::cache set, the new tokens attend to the cached ones as well and are appended to the cache; lengths are not read, and masks
/// refused.
class MultiHeadAttention : public Composite {
 public:
  struct Options {
    int64_t width, heads;
    bool causal = true;
    bool rotary = false;            ///< rotate queries and keys by position (arXiv 2104.09864)
    int64_t context = 0;            ///< the most tokens, for rotary positions
    double standard_deviation = 0;  ///< of qkv.weight; 0 = 1 / sqrt(width)
    double output_deviation = 0;    ///< of out.weight; residual branches start smaller in deep models; 0 = 1 / sqrt(H N)
    int64_t head_width = 0;         ///< 0 = width / heads
    int64_t key_heads = 0;          ///< of keys and values, each shared by as many neighbouring heads (arXiv 2305.13245); 0 = heads
  };
  explicit MultiHeadAttention(const Options& options);
  InputCount input_count() const override { return {1, 3}; }
  std::vector<TableSpec> tables() const override;
  Var forward(const Call& call) const override;

 private:
  Var attend(const Call& call, const Var& qkv, const GivenMasks& given) const;
  Var attend_with_cache(const Call& call, const Var& qkv) const;
  Options options_;
  int qkv_, out_;
};

/// Multi-head attention to another sequence, such as a decoder's to the encoder's output: queries of x, keys and values of the memory.
/// Inputs  {x, memory}, {x, memory, memory_lengths} or {x, memory, memory_lengths, lengths}: padding of the memory is attended to by no
///         token of x, and padding of x attends to nothing; what y holds for it depends on the device. Then a mask of pairs, if wanted.
/// Shape   x [B, T, width], memory [B, S, width], lengths i32 [B] -> y like x. With H heads of width N, and G for keys and values: q.weight
///         [H N, width], kv.weight [2 G N, width], out.weight [width, H N], with biases.
/// With Call::cache set, the first call keeps the memory's keys and values in the cache, later calls attend to these and read no memory;
/// lengths of x are not read, and masks refused.
class CrossAttention : public Composite {
 public:
  struct Options {
    int64_t width, heads;
    int64_t head_width = 0;       ///< 0 = width / heads
    double output_deviation = 0;  ///< of out.weight; 0 = 1 / sqrt(H N)
    int64_t key_heads = 0;        ///< as MultiHeadAttention's
  };
  explicit CrossAttention(const Options& options);
  InputCount input_count() const override { return {2, 5}; }
  Var forward(const Call& call) const override;

 private:
  Var attend_with_cache(const Call& call, const Var& q, const Tensor& memory_lengths) const;
  int64_t heads_, head_width_, key_heads_;
  int q_, kv_, out_;
};

}  // namespace sluice::layers
