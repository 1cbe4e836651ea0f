#include "layers/embedding_bag.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "core/ops/comparison.h"
#include "core/ops/copy.h"
#include "core/ops/select.h"

namespace sluice::layers {

namespace {

/// What each row is multiplied by, [B, T]: its weight, over the sum of the sample's for a mean.
Tensor row_factors(const Tensor& weights, bool is_mean) {
  const Tensor exact = cast(weights, compute_dtype(weights.dtype()));
  if (!is_mean) return exact;
  const Tensor total = sum(exact, {1}, true);
  return where(equal(total, 0), 0, div(exact, total));
}

}  // namespace

EmbeddingBag::EmbeddingBag(Kind kind, int64_t vocabulary, int64_t width, double standard_deviation) : kind_(kind) {
  table_ = add("", Embedding(vocabulary, width, standard_deviation));
}

Var EmbeddingBag::forward(const Call& call) const {
  const Tensor& ids = call.inputs[0].value();
  require(ids.rank() == 2 && ids.dim(1) > 0, "EmbeddingBag: needs ids [batch, tokens] with tokens, got ", ids.shape());
  const Var rows = run(call, table_, {ids});
  const bool is_mean = kind_ == Kind::mean;
  if (call.inputs.size() == 1) return is_mean ? mean(rows, {1}) : sum(rows, {1});
  const Tensor& weights = call.inputs[1].value();
  require(weights.shape() == ids.shape(), "EmbeddingBag: needs a weight for each of the ids ", ids.shape(), ", got ", weights.shape());
  const Tensor factors = cast(row_factors(weights, is_mean), rows.value().dtype());
  return sum(mul(rows, factors.unsqueeze(2)), {1});
}

}  // namespace sluice::layers
