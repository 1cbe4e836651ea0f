#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Multi-head self-attention: one projection to queries, keys and values, attention, one projection back. arXiv 1706.03762.
/// Inputs  {x}, or {x, lengths}: tokens from a sample's length on are padding, which no token attends to and which attends to none.
/// Shape   x [B, T, width], lengths i32 [B] -> y like x. With H heads of width N: qkv.weight [3 H N, width], out.weight [width, H N],
///         with biases.
/// With Call::cache set, the new tokens attend to the cached ones as well and are appended to the cache; lengths are not read.
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
  };
  explicit MultiHeadAttention(const Options& options);
  InputCount input_count() const override { return {1, 2}; }
  std::vector<TableSpec> tables() const override;
  Var forward(const Call& call) const override;

 private:
  Var attend_with_cache(const Call& call, const Var& qkv) const;
  Options options_;
  int qkv_, out_;
};

/// Multi-head attention to another sequence, such as a decoder's to the encoder's output: queries of x, keys and values of the memory.
/// Inputs  {x, memory}, {x, memory, memory_lengths} or {x, memory, memory_lengths, lengths}: padding of the memory is attended to by no
///         token of x, and padding of x attends to nothing.
/// Shape   x [B, T, width], memory [B, S, width], lengths i32 [B] -> y like x. With H heads of width N: q.weight [H N, width],
///         kv.weight [2 H N, width], out.weight [width, H N], with biases.
/// With Call::cache set, the first call keeps the memory's keys and values in the cache, later calls attend to these and read no memory;
/// lengths of x are not read.
class CrossAttention : public Composite {
 public:
  struct Options {
    int64_t width, heads;
    int64_t head_width = 0;       ///< 0 = width / heads
    double output_deviation = 0;  ///< of out.weight; 0 = 1 / sqrt(H N)
  };
  explicit CrossAttention(const Options& options);
  InputCount input_count() const override { return {2, 4}; }
  Var forward(const Call& call) const override;

 private:
  Var attend_with_cache(const Call& call, const Var& q, const Tensor& memory_lengths) const;
  int64_t heads_, head_width_;
  int q_, kv_, out_;
};

}  // namespace sluice::layers
