#pragma once
#include "layers/module.h"

namespace sluice::layers {

/// Multi-head self-attention: one projection to queries, keys and values, attention, one projection back. arXiv 1706.03762.
/// Shape   x [B, T, width] -> the same. qkv.weight [3 width, width], out.weight [width, width], with biases.
/// With Call::cache set, the new tokens attend to the cached ones as well and are appended to the cache.
class MultiHeadAttention : public Composite {
 public:
  struct Options {
    int64_t width, heads;
    bool causal = true;
    bool rotary = false;            ///< rotate queries and keys by position (arXiv 2104.09864)
    int64_t context = 0;            ///< the most tokens, for rotary positions
    double standard_deviation = 0;  ///< of qkv.weight; 0 = 1 / sqrt(width)
    double output_deviation = 0;    ///< of out.weight; residual branches start smaller in deep models
  };
  explicit MultiHeadAttention(const Options& options);
  std::vector<TableSpec> tables() const override;
  Var forward(const Call& call) const override;

 private:
  Var attend_with_cache(const Call& call, const Var& qkv) const;
  Options options_;
  int qkv_, out_;
};

}  // namespace sluice::layers
