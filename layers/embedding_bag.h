#pragma once
#include "layers/embedding.h"

namespace sluice::layers {

/// Rows of a table, added up or averaged over each sample's tokens.
/// Shape   inputs {ids [B, T] i32 or i64}, or {ids, weights [B, T]} -> [B, width]; weight [vocabulary, width].
/// With weights, which have no gradient, a row counts so many times: those of 0 are padding, and a mean is over the sum of weights, and 0
/// where that is 0.
class EmbeddingBag : public Composite {
 public:
  enum class Kind { sum, mean };
  EmbeddingBag(Kind kind, int64_t vocabulary, int64_t width, double standard_deviation = 0.02);
  InputCount input_count() const override { return {1, 2}; }
  Var forward(const Call& call) const override;

 private:
  Kind kind_;
  int table_;
};

}  // namespace sluice::layers
