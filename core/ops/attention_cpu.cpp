#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/cpu/amx.h"
#include "core/cpu/cpu.h"
#include "core/ops/attention.h"
#include "core/ops/attention_amx_cpu.h"
#include "core/ops/attention_heads_cpu.h"
#include "core/ops/rows_cpu.h"
#include "core/ops/tile_product.h"

namespace sluice::kernels {

namespace {

using namespace attention_heads;

/// to [width, rows] = the transposed rows, padded, by tiles that Eigen turns in registers.
template <class T>
void load_transposed(const HeadRows<T>& from, int64_t rows, int64_t width, compute_t<T>* to) {
  const int64_t step = padded_step(rows);
  constexpr std::integral_constant<int64_t, 16> kTile;
  const auto turn = [&](int64_t i, int64_t j, auto height, auto breadth) {
    Eigen::Matrix<compute_t<T>, kTile, kTile, Eigen::RowMajor> tile;
    for (int64_t r = 0; r < height; ++r)
      for (int64_t c = 0; c < breadth; ++c) tile(r, c) = static_cast<compute_t<T>>(from[i + r][j + c]);
    tile.transposeInPlace();
    for (int64_t c = 0; c < breadth; ++c)
      for (int64_t r = 0; r < height; ++r) to[(j + c) * step + i + r] = tile(c, r);
  };
  for (int64_t i = 0; i < rows; i += kTile) {
    for (int64_t r = 0; r < kTile; ++r) prefetch(from, i + kTile + r, width);
    for (int64_t j = 0; j < width; j += kTile) {
      if (i + kTile <= rows && j + kTile <= width)
        turn(i, j, kTile, kTile);  // constant sizes: vector moves
      else
        turn(i, j, std::min<int64_t>(kTile, rows - i), std::min<int64_t>(kTile, width - j));
    }
  }
}

// Products of padded rows in f32 or f64: a tile of registers after another, of what lies in the cache.

/// scores [rows, columns] = queries keys^T, where the keys lie transposed: rows of both are then read along.
template <class C>
void score(const Extent& extent, int64_t rows, int64_t columns, const C* queries, const C* keys, C* scores) {
  multiply_tiles<C>(rows, columns, extent.width, {queries, extent.width_step(), 1}, {keys, extent.key_step()}, false,
                    {scores, extent.block_step()});
}

/// out [rows, width] = weights values (+ out), of the keys from `key` on.
template <class C>
void combine(const Extent& extent, int64_t rows, int64_t key, int64_t columns, const C* weights, const C* values, C* out) {
  multiply_tiles<C>(rows, extent.width, columns, {weights, extent.block_step(), 1},
                    {values + key * extent.width_step(), extent.width_step()}, key > 0, {out, extent.width_step()});
}

/// sums [columns, width] += weights^T rows_of_queries, of the keys from `key` on.
template <class C>
void spread(const Extent& extent, int64_t rows, int64_t key, int64_t columns, const C* weights, const C* of_queries, C* sums) {
  multiply_tiles<C>(columns, extent.width, rows, {weights, 1, extent.block_step()}, {of_queries, extent.width_step()}, true,
                    {sums + key * extent.width_step(), extent.width_step()});
}

/// One block of queries.
template <class T>
class PaddedForward {
 public:
  using C = compute_t<T>;
  PaddedForward(C* memory, const Extent& of) : extent(of) {
    Pieces<C> pieces(memory);
    keys_transposed_ = pieces.take(of.width * of.key_step());
    values_ = pieces.take(of.keys * of.width_step());
    queries_ = pieces.take(kQueries * of.width_step());
    out = pieces.take(kQueries * of.width_step());
    scores = pieces.take(kQueries * of.block_step());
    maximum = pieces.take(kQueries);
    sum = pieces.take(kQueries);
  }
  static int64_t size(int64_t keys, int64_t width) {
    return width * padded_step(keys) + (keys + 2 * kQueries) * padded_step(width) + kQueries * block_step_of(keys) + 2 * kQueries;
  }

  void load_keys(const HeadRows<T>& keys, const HeadRows<T>& values) {
    load_transposed(keys, extent.keys, extent.width, keys_transposed_);
    load(values, 0, extent.keys, extent.width, C{1}, values_);
  }
  void load_queries(const HeadRows<T>& from, int64_t first, int64_t rows) {
    load(from, first, rows, extent.width, static_cast<C>(extent.scale()), queries_);
  }
  void score(int64_t rows, int64_t key, int64_t columns) const {
    kernels::score(extent, rows, columns, queries_, keys_transposed_ + key, scores);
  }
  /// What scores are to be multiplied with: the queries are already.
  C score_factor() const { return 1; }
  void combine(int64_t rows, int64_t key, int64_t columns) const { kernels::combine(extent, rows, key, columns, scores, values_, out); }

  const Extent& extent;
  C *out, *scores, *maximum, *sum;

 private:
  C *keys_transposed_, *values_, *queries_;
};

/// Turns scores into exp(factor (score - maximum so far)), and brings the earlier results of each row to the new maximum.
template <class Way>
void online_softmax(const Way& s, int64_t first_query, int64_t rows, int64_t first_key, int64_t columns) {
  using C = typename Way::C;
  const Extent& extent = s.extent;
  const C score_factor = s.score_factor();
  for (int64_t i = 0; i < rows; ++i) {
    const MaskedRow<C> row(s.scores + i * extent.block_step(), extent.seen(first_query + i, first_key, columns), columns);
    row.fill_hidden(-std::numeric_limits<C>::infinity());
    const C maximum = std::max(s.maximum[i], row.vectors.maxCoeff());
    row.vectors = exponentials((row.vectors - maximum) * score_factor);  // 0 where hidden
    const C factor = first_key == 0 ? 0 : std::exp((s.maximum[i] - maximum) * score_factor);
    s.sum[i] = s.sum[i] * factor + row.vectors.sum();
    s.maximum[i] = maximum;
    if (first_key > 0 && factor != 1) Row<C>(s.out + i * extent.width_step(), extent.width) *= factor;
  }
}

/// Queries [first, first + rows) of one head: result rows in s.out, not yet divided by s.sum.
template <class Way>
void attend(const Way& s, int64_t first, int64_t rows) {
  using C = typename Way::C;
  std::fill_n(s.maximum, rows, -std::numeric_limits<C>::infinity());
  std::fill_n(s.sum, rows, C{0});
  const int64_t visible = s.extent.visible(first, rows);
  for (int64_t key = 0; key < visible; key += kKeys) {
    const int64_t columns = std::min(kKeys, visible - key);
    s.score(rows, key, columns);
    online_softmax(s, first, rows, key, columns);
    s.combine(rows, key, columns);
  }
}

template <class T>
class PaddedBackward {
 public:
  using C = compute_t<T>;
  PaddedBackward(C* memory, const Extent& of) : extent(of) {
    Pieces<C> pieces(memory);
    for (C** rows : {&keys_, &dkeys, &dvalues}) *rows = pieces.take(of.keys * of.width_step());
    for (C** columns : {&keys_transposed_, &values_transposed_}) *columns = pieces.take(of.width * of.key_step());
    for (C** rows : {&queries_, &dqueries, &dout_}) *rows = pieces.take(kQueries * of.width_step());
    for (C** block : {&weights, &dscores}) *block = pieces.take(kQueries * of.block_step());
    delta = pieces.take(kQueries);
  }
  static int64_t size(int64_t keys, int64_t width) {
    return 2 * width * padded_step(keys) + 3 * (keys + kQueries) * padded_step(width) + 2 * kQueries * block_step_of(keys) + kQueries;
  }

  void load_keys(const HeadRows<T>& keys, const HeadRows<T>& values) {
    load(keys, 0, extent.keys, extent.width, C{1}, keys_);
    load_transposed(keys, extent.keys, extent.width, keys_transposed_);
    load_transposed(values, extent.keys, extent.width, values_transposed_);
    for (C* sums : {dkeys, dvalues}) std::fill_n(sums, extent.keys * extent.width_step(), C{0});
  }
  void load_queries(const HeadRows<T>& q, const HeadRows<T>& y, const HeadRows<T>& dy, int64_t first, int64_t rows) {
    load(dy, first, rows, extent.width, C{1}, dout_);
    load(y, first, rows, extent.width, C{1}, queries_);
    sum_products(queries_, dout_, rows, extent.width, delta);
    load(q, first, rows, extent.width, static_cast<C>(extent.scale()), queries_);
  }
  void score(int64_t rows, int64_t key, int64_t columns) const {
    kernels::score(extent, rows, columns, queries_, keys_transposed_ + key, weights);
  }
  C score_factor() const { return 1; }
  void score_gradient(int64_t rows, int64_t key, int64_t columns) const {
    kernels::score(extent, rows, columns, dout_, values_transposed_ + key, dscores);
  }
  void add_to_values(int64_t rows, int64_t key, int64_t columns) const { spread(extent, rows, key, columns, weights, dout_, dvalues); }
  void add_to_keys(int64_t rows, int64_t key, int64_t columns) const { spread(extent, rows, key, columns, dscores, queries_, dkeys); }
  void add_to_queries(int64_t rows, int64_t key, int64_t columns) const { combine(extent, rows, key, columns, dscores, keys_, dqueries); }
  /// What the sums are to be multiplied with: the queries are already.
  C query_factor() const { return static_cast<C>(extent.scale()); }
  C key_factor() const { return 1; }

  const Extent& extent;
  C *dkeys, *dvalues, *dqueries, *weights, *dscores, *delta;

 private:
  C *keys_, *keys_transposed_, *values_transposed_, *queries_, *dout_;
};

/// weights = softmax, from the scores and the log-sum-exp of each row.
template <class Way>
void softmax_again(const Way& s, const typename Way::C* log_sum_exp, int64_t first_query, int64_t rows, int64_t first_key,
                   int64_t columns) {
  const typename Way::C score_factor = s.score_factor();
  for (int64_t i = 0; i < rows; ++i) {
    const MaskedRow<typename Way::C> row(s.weights + i * s.extent.block_step(), s.extent.seen(first_query + i, first_key, columns),
                                         columns);
    row.vectors = exponentials(row.vectors * score_factor - log_sum_exp[first_query + i]);
    row.fill_hidden(0);
  }
}

/// dscores = weights * (dweights - delta), where dscores holds dweights.
template <class Way>
void softmax_gradient(const Way& s, int64_t rows, int64_t columns) {
  using Blocks = Row<typename Way::C>;
  for (int64_t i = 0; i < rows; ++i) {
    Blocks row(s.dscores + i * s.extent.block_step(), columns);
    row = Blocks(s.weights + i * s.extent.block_step(), columns) * (row - s.delta[i]);
  }
}

/// Queries [first, first + rows) of one head: adds to s.dkeys and s.dvalues, and leaves s.dqueries.
template <class Way>
void attend_backward(const Way& s, const typename Way::C* log_sum_exp, int64_t first, int64_t rows, bool wants_dq, bool wants_dk,
                     bool wants_dv) {
  const int64_t visible = s.extent.visible(first, rows);
  for (int64_t key = 0; key < visible; key += kKeys) {
    const int64_t columns = std::min(kKeys, visible - key);
    s.score(rows, key, columns);
    softmax_again(s, log_sum_exp, first, rows, key, columns);
    if (wants_dv) s.add_to_values(rows, key, columns);
    if (!wants_dq && !wants_dk) continue;
    s.score_gradient(rows, key, columns);
    softmax_gradient(s, rows, columns);
    if (wants_dq) s.add_to_queries(rows, key, columns);
    if (wants_dk) s.add_to_keys(rows, key, columns);
  }
}

/// Calls body with the way that serves T and a sample of these sizes: body.template operator()<Forward, Backward>(). In f32, where a number
/// is three, tiles want wide heads and many tokens: of fewer packing takes longer than they save (docs/performance.md). As each sample
/// without its padding decides, its bits do not depend on others'.
template <class T, class Body>
void with_way(int64_t queries, int64_t keys, int64_t width, const Body& body) {
  constexpr int64_t kLeastKeys = 128, kLeastWidth = 32;
  if constexpr (!std::is_same_v<T, double>)
    if (has_amx() && (std::is_same_v<T, bfloat16> || (queries >= kQueries && keys >= kLeastKeys && width >= kLeastWidth)))
      return body.template operator()<AmxForward<T>, AmxBackward<T>>();
  body.template operator()<PaddedForward<T>, PaddedBackward<T>>();
}

}  // namespace

int64_t attention_scratch(const Tensor& q, const Tensor& k, bool backward) {
  const int64_t keys = k.dim(1), width = q.dim(3);
  int64_t elements = 0;
  on_float(q.dtype(), "attention", [&]<class T>() {
    const auto take = [&]<class Forward, class Backward>() {
      elements = std::max(elements, backward ? Backward::size(keys, width) : Forward::size(keys, width));
    };
    for (int64_t of_sample : {int64_t{1}, keys})  // there may be short samples and long ones
      with_way<T>(q.dim(1), of_sample, width, take);
  });
  return elements;
}

void attention(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, const AttentionResult& result,
               const Tensor& scratch) {
  const Extent all(q, k, mask);
  on_float(q.dtype(), "attention", [&]<class T>() {
    using C = compute_t<T>;
    const Heads<T> queries(q), keys(k), values(v), y(result.y);
    C *memory = scratch.data<C>(), *log_sum_exps = result.log_sum_exp.data<C>();
    const auto attend_head = [&]<class Way>(int64_t sample, int64_t key_head, Way s) {
      const Extent& extent = s.extent;
      s.load_keys(keys.rows(sample, key_head), values.rows(sample, key_head));
      for (int64_t head = key_head * extent.group; head < (key_head + 1) * extent.group; ++head) {
        for (int64_t first = 0; first < extent.queries; first += kQueries) {
          const int64_t rows = std::min(kQueries, extent.queries - first);
          s.load_queries(queries.rows(sample, head), first, rows);
          attend(s, first, rows);
          for (int64_t i = 0; i < rows; ++i) Row<C>(s.out + i * extent.width_step(), extent.width) *= 1 / s.sum[i];
          store(s.out, C{1}, first, rows, extent.width, y.rows(sample, head));
          Row<C>(s.sum, rows) = Row<C>(s.maximum, rows) * s.score_factor() + Row<C>(s.sum, rows).log();
          std::copy_n(s.sum, rows, log_sum_exps + (sample * q.dim(2) + head) * all.queries + first);
        }
        clear_rows(y.rows(sample, head), extent.queries, all.queries, extent.width);
      }
    };
    cpu.parallel_slots(k.dim(0) * k.dim(2), [&](int64_t item, int64_t slot) {
      const int64_t sample = item / k.dim(2);
      const Extent extent = all.of_sample(sample);
      with_way<T>(extent.queries, extent.keys, extent.width,
                  [&]<class Forward, class>() { attend_head(sample, item % k.dim(2), Forward(memory + slot * scratch.dim(1), extent)); });
    });
  });
}

void attention_backward(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        const AttentionMask& mask, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& scratch) {
  const Extent all(q, k, mask);
  on_float(q.dtype(), "attention", [&]<class T>() {
    using C = compute_t<T>;
    const Heads<T> queries(q), keys(k), values(v), y(result.y), out_gradient(dy), to_queries(dq), to_keys(dk), to_values(dv);
    C *memory = scratch.data<C>(), *log_sum_exps = result.log_sum_exp.data<C>();
    const auto store_keys = [&](const Extent& extent, const C* sums, C factor, const HeadRows<T>& to) {
      store(sums, factor, 0, extent.keys, extent.width, to);
      clear_rows(to, extent.keys, all.keys, extent.width);
    };
    const auto attend_head = [&]<class Way>(int64_t sample, int64_t key_head, Way s) {
      const Extent& extent = s.extent;
      s.load_keys(keys.rows(sample, key_head), values.rows(sample, key_head));
      for (int64_t head = key_head * extent.group; head < (key_head + 1) * extent.group; ++head) {
        for (int64_t first = 0; first < extent.queries; first += kQueries) {
          const int64_t rows = std::min(kQueries, extent.queries - first);
          s.load_queries(queries.rows(sample, head), y.rows(sample, head), out_gradient.rows(sample, head), first, rows);
          const C* log_sum_exp = log_sum_exps + (sample * q.dim(2) + head) * all.queries;
          attend_backward(s, log_sum_exp, first, rows, dq.defined(), dk.defined(), dv.defined());
          if (dq.defined()) store(s.dqueries, s.query_factor(), first, rows, extent.width, to_queries.rows(sample, head));
        }
        if (dq.defined()) clear_rows(to_queries.rows(sample, head), extent.queries, all.queries, extent.width);
      }
      if (dk.defined()) store_keys(extent, s.dkeys, s.key_factor(), to_keys.rows(sample, key_head));
      if (dv.defined()) store_keys(extent, s.dvalues, C{1}, to_values.rows(sample, key_head));
    };
    cpu.parallel_slots(k.dim(0) * k.dim(2), [&](int64_t item, int64_t slot) {
      const int64_t sample = item / k.dim(2);
      const Extent extent = all.of_sample(sample);
      with_way<T>(extent.queries, extent.keys, extent.width,
                  [&]<class, class Backward>() { attend_head(sample, item % k.dim(2), Backward(memory + slot * scratch.dim(1), extent)); });
    });
  });
}

}  // namespace sluice::kernels
