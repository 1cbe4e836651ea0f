#include "core/ops/masked_attention.h"

#include <cmath>

#include "core/ops/comparison.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/ops/ramp.h"
#include "core/ops/reduction.h"
#include "core/ops/select.h"
#include "core/ops/softmax.h"

namespace sluice {

namespace {

/// What hidden scores are set to, and below which scores count as hidden: beyond all that products of floats give, and yet finite, so that a
/// row of nothing else makes no NaN.
constexpr double kHiddenScore = -1e30;

struct Extents {
  int64_t samples, queries, heads, keys, key_heads, width;
  int64_t shared() const { return heads / key_heads; }
  Shape pairs() const { return {samples, heads, queries, keys}; }
  Shape rows_of_keys() const { return {samples, key_heads, shared() * queries, keys}; }
};

Extents extents_of(const Tensor& q, const Tensor& k) { return {q.dim(0), q.dim(1), q.dim(2), k.dim(1), k.dim(2), q.dim(3)}; }

void check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask) {
  require(q.rank() == 4 && k.rank() == 4 && k.shape() == v.shape() && q.dim(0) == k.dim(0) && q.dim(3) == k.dim(3),
          "masked_attention: needs q [B, T, H, N] and k, v [B, S, G, N], got ", q.shape(), ", ", k.shape(), " and ", v.shape());
  require(k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0 && k.dim(1) > 0,
          "masked_attention: needs key heads that divide the query heads, and a key, got q ", q.shape(), " and k ", k.shape());
  require(!mask.causal || k.dim(1) >= q.dim(1), "masked_attention: causal needs at least as many keys as queries, got q ", q.shape(),
          " and k ", k.shape());
  require(q.dtype() == k.dtype() && q.dtype() == v.dtype() && is_floating(q.dtype()), "masked_attention: needs one floating dtype, got ", q,
          ", ", k, " and ", v);
}

/// Of a mask: with the axes that it lacks, of extent 1.
Shape with_all_axes(const char* what, const Shape& mask, const Extents& of) {
  const int rank = mask.rank();
  const bool has_pairs = rank >= 2 && rank <= 4 && mask[rank - 2] == of.queries && mask[rank - 1] == of.keys;
  const bool has_heads = rank < 4 || mask[1] == 1 || mask[1] == of.heads;
  require(has_pairs && has_heads && (rank < 3 || mask[0] == 1 || mask[0] == of.samples), "masked_attention: needs ", what, " [", of.queries,
          ", ", of.keys, "], [", of.samples, ", ", of.queries, ", ", of.keys, "] or ", of.pairs(), ", got ", mask);
  if (rank == 4) return mask;
  return {rank == 3 ? mask[0] : 1, 1, of.queries, of.keys};
}

/// [B, T, H, N] as [B, G, (H / G) T, N]: the queries of one key head as rows of one matrix. A view where each head has a key head of its own.
Tensor by_key_head(const Tensor& x, const Extents& of) {
  if (of.shared() == 1) return x.permute({0, 2, 1, 3});
  const Tensor split = x.contiguous().reshape({of.samples, of.queries, of.key_heads, of.shared(), of.width});
  return split.permute({0, 2, 3, 1, 4}).contiguous().reshape({of.samples, of.key_heads, of.shared() * of.queries, of.width});
}

/// The inverse, row-major.
Tensor by_query(const Tensor& x, const Extents& of) {
  const Tensor split = x.reshape({of.samples, of.key_heads, of.shared(), of.queries, of.width});
  return split.permute({0, 3, 1, 2, 4}).contiguous().reshape({of.samples, of.queries, of.heads, of.width});
}

/// a b^T in the dtype of arithmetic.
Tensor exact_product(const Tensor& a, const Tensor& b, const Shape& shape) {
  const Tensor c = empty(shape, compute_dtype(a.dtype()), a.device_ptr());
  matmul_into(a, b, c, false, true, 0);
  return c;
}

/// 1 where a row's number is below its sample's length, u8 [B, 1, ...] with the rows along an axis of four.
Tensor below_lengths(const Tensor& lengths, int64_t rows, int axis, const Extents& of) {
  require(lengths.shape() == Shape{of.samples} && lengths.dtype() == DType::i32, "masked_attention: needs lengths i32 [", of.samples,
          "], got ", lengths);
  const Tensor numbers = arange(0, static_cast<double>(rows), 1, DType::i32, lengths.device_ptr());
  return less(numbers.reshape(Shape{1, 1, 1, 1}.with(axis, rows)), lengths.contiguous().reshape({of.samples, 1, 1, 1}));
}

/// 1 where a pair is hidden, u8 of a shape that broadcasts to all pairs; undefined where none is.
Tensor hidden_pairs(const AttentionMask& mask, const PairMask& pairs, const Extents& of, const DevicePtr& device) {
  Tensor hidden;
  const auto hide_others = [&](const Tensor& seen) {
    const Tensor others = logical_not(seen);
    hidden = hidden.defined() ? logical_or(hidden, others) : others;
  };
  if (mask.causal) hide_others(triangle(of.queries, of.keys, of.keys - of.queries, device));
  if (mask.query_lengths.defined()) hide_others(below_lengths(mask.query_lengths, of.queries, 2, of));
  if (mask.key_lengths.defined()) hide_others(below_lengths(mask.key_lengths, of.keys, 3, of));
  if (pairs.allowed.defined()) {
    require(pairs.allowed.dtype() == DType::u8, "masked_attention: needs allowed pairs in u8, got ", pairs.allowed);
    hide_others(pairs.allowed.contiguous().reshape(with_all_axes("allowed pairs", pairs.allowed.shape(), of)));
  }
  return hidden;
}

}  // namespace

MaskedAttentionResult masked_attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                                               const PairMask& pairs) {
  check(q, k, v, mask);
  const Extents of = extents_of(q, k);
  Tensor scores = exact_product(by_key_head(q, of), k.permute({0, 2, 1, 3}), of.rows_of_keys()).reshape(of.pairs());
  scores = scale(scores, 1 / std::sqrt(static_cast<double>(of.width)));
  Tensor hidden = hidden_pairs(mask, pairs, of, q.device_ptr());
  if (pairs.added.defined()) {
    const Shape shape = with_all_axes("an added mask", pairs.added.shape(), of);
    require(is_floating(pairs.added.dtype()), "masked_attention: needs an added mask of floats, got ", pairs.added);
    scores = add(scores, cast(pairs.added, scores.dtype()).contiguous().reshape(shape));
    const Tensor far_below = less(scores, kHiddenScore);
    hidden = hidden.defined() ? logical_or(hidden, far_below) : far_below;
  }
  if (hidden.defined()) scores = masked_fill(scores, hidden, kHiddenScore);
  Tensor weights = softmax(scores);
  if (hidden.defined()) weights = masked_fill(weights, hidden, 0);
  weights = cast(weights, q.dtype());
  return {by_query(matmul(weights.reshape(of.rows_of_keys()), v.permute({0, 2, 1, 3})), of), weights};
}

MaskedAttentionGradients masked_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& weights,
                                                   const Tensor& dy, const Shape* added) {
  const Extents of = extents_of(q, k);
  require(dy.shape() == q.shape(), "masked_attention: needs a gradient of the shape of q ", q.shape(), ", got ", dy.shape());
  const double factor = 1 / std::sqrt(static_cast<double>(of.width));
  const Tensor queries = by_key_head(q, of), gradient = by_key_head(dy, of), rows = weights.reshape(of.rows_of_keys());
  const Tensor dweights = exact_product(gradient, v.permute({0, 2, 1, 3}), of.rows_of_keys());
  const Tensor dscores = softmax_backward(cast(rows, dweights.dtype()), dweights), rounded = cast(scale(dscores, factor), q.dtype());
  const Tensor dq = by_query(matmul(rounded, k.permute({0, 2, 1, 3})), of);
  const auto of_keys = [](const Tensor& x) { return x.permute({0, 2, 1, 3}); };
  const Tensor dk = of_keys(matmul(rounded, queries, true)), dv = of_keys(matmul(rows, gradient, true));
  if (added == nullptr) return {dq, dk, dv, {}};
  return {dq, dk, dv, sum_to(dscores.reshape(of.pairs()), with_all_axes("an added mask", *added, of)).reshape(*added)};
}

}  // namespace sluice
