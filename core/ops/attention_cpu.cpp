#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/cpu/cpu.h"
#include "core/ops/attention.h"
#include "core/ops/tile_product.h"

namespace sluice::kernels {

namespace {

constexpr int64_t kQueries = 32;  // rows of a block of scores: few, because a causal block computes what it then masks
constexpr int64_t kKeys = 256;    // its columns: 32 KiB in f32, and the product with the values has a long sum

/// Between the rows of a block of scores, of queries that see this many keys.
int64_t block_step_of(int64_t keys) { return padded_step(std::min(kKeys, keys)); }

/// The rows of one sample and head.
template <class T>
struct HeadRows {
  T* data;
  int64_t step;
  T* operator[](int64_t row) const { return data + row * step; }
};

/// A [B, T, H, N] tensor by heads; nothing for an undefined one.
template <class T>
struct Heads {
  explicit Heads(const Tensor& x) {
    if (x.defined()) data = x.data<T>(), by_sample = x.stride(0), by_row = x.stride(1), by_head = x.stride(2);
  }
  HeadRows<T> rows(int64_t sample, int64_t head) const { return {data + sample * by_sample + head * by_head, by_row}; }
  T* data = nullptr;
  int64_t by_sample = 0, by_row = 0, by_head = 0;
};

/// Asks for a row that is needed soon: rows of a head lie too far apart for the hardware to guess. Past the end it does no harm.
template <class T>
void prefetch(const HeadRows<T>& rows, int64_t row, int64_t width) {
  const auto address = reinterpret_cast<uintptr_t>(rows.data) + static_cast<uintptr_t>(row * rows.step) * sizeof(T);
  for (uintptr_t byte = 0; byte < static_cast<size_t>(width) * sizeof(T); byte += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(address + byte));
}
constexpr int64_t kAhead = 12;  // rows between asking and using

/// to: padded rows of `width`.
template <class T>
void load(const HeadRows<T>& from, int64_t first, int64_t rows, int64_t width, compute_t<T> factor, compute_t<T>* to) {
  const int64_t step = padded_step(width);
  for (int64_t i = 0; i < rows; ++i) {
    prefetch(from, first + i + kAhead, width);
    for (int64_t j = 0; j < width; ++j) to[i * step + j] = static_cast<compute_t<T>>(from[first + i][j]) * factor;
  }
}

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

template <class T>
void store(const compute_t<T>* from, compute_t<T> factor, int64_t first, int64_t rows, int64_t width, const HeadRows<T>& to) {
  const int64_t step = padded_step(width);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) to[first + i][j] = static_cast<T>(from[i * step + j] * factor);
}

template <class T>
void clear_rows(const HeadRows<T>& rows, int64_t first, int64_t end, int64_t width) {
  for (int64_t i = first; i < end; ++i) std::fill_n(rows[i], width, T(0));
}

template <class C>
using Row = Eigen::Map<Eigen::Array<C, 1, Eigen::Dynamic>>;

/// A row of a block of scores, of which the first `seen` columns count. Vectors cover the row in whole multiples of 16: scalar
/// remainders of exp would cost more than all the rest.
template <class C>
struct MaskedRow {
  MaskedRow(C* data, int64_t seen_columns, int64_t columns) : seen(seen_columns), vectors(data, (columns + 15) / 16 * 16) {}
  void fill_hidden(C value) const { std::fill(vectors.data() + seen, vectors.data() + vectors.size(), value); }
  int64_t seen;
  mutable Row<C> vectors;
};

/// Hands out pieces of one thread's scratch, each on a cache line of its own.
template <class C>
class Pieces {
 public:
  explicit Pieces(C* next) : next_(next) {}
  C* take(int64_t elements) { return std::exchange(next_, next_ + (elements + 15) / 16 * 16); }

 private:
  C* next_;
};

/// The sizes of one call, or of one of its samples, and which keys a query sees.
struct Extent {
  Extent(const Tensor& q, const Tensor& k, const AttentionMask& mask)
      : queries(q.dim(1)),
        keys(k.dim(1)),
        width(q.dim(3)),
        group(q.dim(2) / k.dim(2)),
        ahead(mask.causal ? keys - queries : keys),
        query_lengths(lengths_of("query", mask.query_lengths, queries)),
        key_lengths(lengths_of("key", mask.key_lengths, keys)) {}
  int64_t queries, keys, width, group;
  int64_t ahead;  ///< of how many keys beyond its own number a query sees the first
  const int32_t *query_lengths, *key_lengths;

  /// What is left of a sample without its padding; nothing where no query sees a key.
  Extent of_sample(int64_t sample) const {
    Extent of = *this;
    if (query_lengths) of.queries = query_lengths[sample];
    if (key_lengths) of.keys = key_lengths[sample];
    if (of.queries == 0 || of.keys == 0) of.queries = of.keys = 0;
    return of;
  }
  /// Keys that queries [first, first + rows) read between them.
  int64_t visible(int64_t first, int64_t rows) const { return std::min(first + rows + ahead, keys); }
  /// How many of the keys [first_key, first_key + columns) one query sees.
  int64_t seen(int64_t query, int64_t first_key, int64_t columns) const {
    return std::clamp<int64_t>(visible(query, 1) - first_key, 0, columns);
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
  int64_t width_step() const { return padded_step(width); }  ///< between rows of a head in scratch
  int64_t key_step() const { return padded_step(keys); }     ///< between rows of transposed keys
  int64_t block_step() const { return block_step_of(keys); }

 private:
  /// In one thread before any work, so that the error names the first bad sample.
  static const int32_t* lengths_of(const char* whose, const Tensor& lengths, int64_t longest) {
    if (!lengths.defined()) return nullptr;
    const auto* all = lengths.data<int32_t>();
    for (int64_t i = 0; i < lengths.elements(); ++i)
      require(0 <= all[i] && all[i] <= longest, "attention: needs ", whose, " lengths in [0, ", longest + 1, "), got ", all[i],
              " of sample ", i);
    return all;
  }
};

/// scores [rows, columns] = queries keys^T, where the keys lie transposed: rows of both are then read along.
template <class C>
void score(const Extent& extent, int64_t rows, int64_t columns, const C* queries, const C* keys, C* scores) {
  multiply_tiles<C>(rows, columns, extent.width, {queries, extent.width_step(), 1}, {keys, extent.key_step()}, false,
                    {scores, extent.block_step()});
}

/// out [rows, width] = weights values (+ out).
template <class C>
void combine(const Extent& extent, int64_t rows, int64_t columns, const C* weights, const C* values, bool add, C* out) {
  multiply_tiles<C>(rows, extent.width, columns, {weights, extent.block_step(), 1}, {values, extent.width_step()}, add,
                    {out, extent.width_step()});
}

/// sums [columns, width] += weights^T rows_of_queries.
template <class C>
void spread(const Extent& extent, int64_t rows, int64_t columns, const C* weights, const C* of_queries, C* sums) {
  multiply_tiles<C>(columns, extent.width, rows, {weights, 1, extent.block_step()}, {of_queries, extent.width_step()}, true,
                    {sums, extent.width_step()});
}

template <class C>
struct ForwardScratch {
  ForwardScratch(C* data, const Extent& extent) : pieces(data) {
    keys_transposed = pieces.take(extent.width * extent.key_step());
    values = pieces.take(extent.keys * extent.width_step());
    queries = pieces.take(kQueries * extent.width_step());
    out = pieces.take(kQueries * extent.width_step());
    scores = pieces.take(kQueries * extent.block_step());
    maximum = pieces.take(kQueries);
    sum = pieces.take(kQueries);
  }
  static int64_t size(int64_t keys, int64_t width) {
    return width * padded_step(keys) + (keys + 2 * kQueries) * padded_step(width) + kQueries * block_step_of(keys) + 2 * kQueries;
  }
  Pieces<C> pieces;
  C *keys_transposed, *values, *queries, *out, *scores, *maximum, *sum;
};

/// Turns scores into exp(score - maximum so far), and brings the earlier results of each row to the new maximum.
template <class C>
void online_softmax(const Extent& extent, const ForwardScratch<C>& s, int64_t first_query, int64_t rows, int64_t first_key,
                    int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    const MaskedRow<C> row(s.scores + i * extent.block_step(), extent.seen(first_query + i, first_key, columns), columns);
    row.fill_hidden(-std::numeric_limits<C>::infinity());
    const C maximum = std::max(s.maximum[i], row.vectors.maxCoeff());
    row.vectors = (row.vectors - maximum).exp();
    row.fill_hidden(0);
    const C factor = first_key == 0 ? 0 : std::exp(s.maximum[i] - maximum);
    s.sum[i] = s.sum[i] * factor + row.vectors.sum();
    s.maximum[i] = maximum;
    if (first_key > 0 && factor != 1) Row<C>(s.out + i * extent.width_step(), extent.width) *= factor;
  }
}

/// Queries [first, first + rows) of one head: result rows in s.out, not yet divided by s.sum.
template <class C>
void attend(const Extent& extent, const ForwardScratch<C>& s, int64_t first, int64_t rows) {
  std::fill_n(s.maximum, rows, -std::numeric_limits<C>::infinity());
  std::fill_n(s.sum, rows, C{0});
  const int64_t visible = extent.visible(first, rows);
  for (int64_t key = 0; key < visible; key += kKeys) {
    const int64_t columns = std::min(kKeys, visible - key);
    score(extent, rows, columns, s.queries, s.keys_transposed + key, s.scores);
    online_softmax(extent, s, first, rows, key, columns);
    combine(extent, rows, columns, s.scores, s.values + key * extent.width_step(), key > 0, s.out);
  }
}

template <class C>
struct BackwardScratch {
  BackwardScratch(C* data, const Extent& extent) : pieces(data) {
    for (C** rows : {&keys, &dkeys, &dvalues}) *rows = pieces.take(extent.keys * extent.width_step());
    for (C** columns : {&keys_transposed, &values_transposed}) *columns = pieces.take(extent.width * extent.key_step());
    for (C** rows : {&queries, &dqueries, &dout}) *rows = pieces.take(kQueries * extent.width_step());
    for (C** block : {&weights, &dscores}) *block = pieces.take(kQueries * extent.block_step());
    delta = pieces.take(kQueries);
  }
  static int64_t size(int64_t keys, int64_t width) {
    return 2 * width * padded_step(keys) + 3 * (keys + kQueries) * padded_step(width) + 2 * kQueries * block_step_of(keys) + kQueries;
  }
  Pieces<C> pieces;
  C *keys, *keys_transposed, *values_transposed, *dkeys, *dvalues, *queries, *dqueries, *dout, *weights, *dscores, *delta;
};

/// weights = softmax, from the scores and the log-sum-exp of each row.
template <class C>
void softmax_again(const Extent& extent, const BackwardScratch<C>& s, const C* log_sum_exp, int64_t first_query, int64_t rows,
                   int64_t first_key, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    const MaskedRow<C> row(s.weights + i * extent.block_step(), extent.seen(first_query + i, first_key, columns), columns);
    row.vectors = (row.vectors - log_sum_exp[first_query + i]).exp();
    row.fill_hidden(0);
  }
}

/// dscores = weights * (dweights - delta), where dscores holds dweights.
template <class C>
void softmax_gradient(const Extent& extent, const BackwardScratch<C>& s, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    Row<C> row(s.dscores + i * extent.block_step(), columns);
    row = Row<C>(s.weights + i * extent.block_step(), columns) * (row - s.delta[i]);
  }
}

/// Queries [first, first + rows) of one head: adds to s.dkeys and s.dvalues, and leaves s.dqueries.
template <class C>
void attend_backward(const Extent& extent, const BackwardScratch<C>& s, const C* log_sum_exp, int64_t first, int64_t rows, bool wants_dq,
                     bool wants_dk, bool wants_dv) {
  const int64_t visible = extent.visible(first, rows);
  for (int64_t key = 0; key < visible; key += kKeys) {
    const int64_t columns = std::min(kKeys, visible - key), at = key * extent.width_step();
    score(extent, rows, columns, s.queries, s.keys_transposed + key, s.weights);
    softmax_again(extent, s, log_sum_exp, first, rows, key, columns);
    if (wants_dv) spread(extent, rows, columns, s.weights, s.dout, s.dvalues + at);
    if (!wants_dq && !wants_dk) continue;
    score(extent, rows, columns, s.dout, s.values_transposed + key, s.dscores);
    softmax_gradient(extent, s, rows, columns);
    if (wants_dq) combine(extent, rows, columns, s.dscores, s.keys + at, key > 0, s.dqueries);
    if (wants_dk) spread(extent, rows, columns, s.dscores, s.queries, s.dkeys + at);
  }
}

}  // namespace

int64_t attention_scratch(const Tensor& q, const Tensor& k, bool backward) {
  return backward ? BackwardScratch<float>::size(k.dim(1), q.dim(3)) : ForwardScratch<float>::size(k.dim(1), q.dim(3));
}

void attention(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, const AttentionResult& result,
               const Tensor& scratch) {
  const Extent all(q, k, mask);
  on_float(q.dtype(), "attention", [&]<class T>() {
    using C = compute_t<T>;
    const Heads<T> queries(q), keys(k), values(v), y(result.y);
    C *memory = scratch.data<C>(), *log_sum_exps = result.log_sum_exp.data<C>();
    cpu.parallel_slots(k.dim(0) * k.dim(2), [&](int64_t item, int64_t slot) {
      const int64_t sample = item / k.dim(2), key_head = item % k.dim(2);
      const Extent extent = all.of_sample(sample);
      const ForwardScratch<C> s(memory + slot * scratch.dim(1), extent);
      load_transposed(keys.rows(sample, key_head), extent.keys, extent.width, s.keys_transposed);
      load(values.rows(sample, key_head), 0, extent.keys, extent.width, C{1}, s.values);
      for (int64_t head = key_head * extent.group; head < (key_head + 1) * extent.group; ++head) {
        for (int64_t first = 0; first < extent.queries; first += kQueries) {
          const int64_t rows = std::min(kQueries, extent.queries - first);
          load(queries.rows(sample, head), first, rows, extent.width, static_cast<C>(extent.scale()), s.queries);
          attend(extent, s, first, rows);
          for (int64_t i = 0; i < rows; ++i) Row<C>(s.out + i * extent.width_step(), extent.width) *= 1 / s.sum[i];
          store(s.out, C{1}, first, rows, extent.width, y.rows(sample, head));
          Row<C>(s.sum, rows) = Row<C>(s.maximum, rows) + Row<C>(s.sum, rows).log();
          std::copy_n(s.sum, rows, log_sum_exps + (sample * q.dim(2) + head) * all.queries + first);
        }
        clear_rows(y.rows(sample, head), extent.queries, all.queries, extent.width);
      }
    });
  });
}

void attention_backward(Cpu& cpu, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& result, const Tensor& dy,
                        const AttentionMask& mask, const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& scratch) {
  const Extent all(q, k, mask);
  on_float(q.dtype(), "attention", [&]<class T>() {
    using C = compute_t<T>;
    const C scale = static_cast<C>(all.scale());
    const Heads<T> queries(q), keys(k), values(v), y(result.y), out_gradient(dy), to_queries(dq), to_keys(dk), to_values(dv);
    C *memory = scratch.data<C>(), *log_sum_exps = result.log_sum_exp.data<C>();
    cpu.parallel_slots(k.dim(0) * k.dim(2), [&](int64_t item, int64_t slot) {
      const int64_t sample = item / k.dim(2), key_head = item % k.dim(2);
      const Extent extent = all.of_sample(sample);
      const BackwardScratch<C> s(memory + slot * scratch.dim(1), extent);
      const auto store_keys = [&](const C* sums, const HeadRows<T>& to) {
        store(sums, C{1}, 0, extent.keys, extent.width, to);
        clear_rows(to, extent.keys, all.keys, extent.width);
      };
      load(keys.rows(sample, key_head), 0, extent.keys, extent.width, C{1}, s.keys);
      load_transposed(keys.rows(sample, key_head), extent.keys, extent.width, s.keys_transposed);
      load_transposed(values.rows(sample, key_head), extent.keys, extent.width, s.values_transposed);
      std::fill_n(s.dkeys, extent.keys * extent.width_step(), C{0});
      std::fill_n(s.dvalues, extent.keys * extent.width_step(), C{0});
      for (int64_t head = key_head * extent.group; head < (key_head + 1) * extent.group; ++head) {
        for (int64_t first = 0; first < extent.queries; first += kQueries) {
          const int64_t rows = std::min(kQueries, extent.queries - first);
          load(out_gradient.rows(sample, head), first, rows, extent.width, C{1}, s.dout);
          load(y.rows(sample, head), first, rows, extent.width, C{1}, s.queries);
          for (int64_t i = 0; i < rows; ++i)
            s.delta[i] =
                (Row<C>(s.queries + i * extent.width_step(), extent.width) * Row<C>(s.dout + i * extent.width_step(), extent.width)).sum();
          load(queries.rows(sample, head), first, rows, extent.width, scale, s.queries);
          const C* log_sum_exp = log_sum_exps + (sample * q.dim(2) + head) * all.queries;
          attend_backward(extent, s, log_sum_exp, first, rows, dq.defined(), dk.defined(), dv.defined());
          if (dq.defined()) store(s.dqueries, scale, first, rows, extent.width, to_queries.rows(sample, head));
        }
        if (dq.defined()) clear_rows(to_queries.rows(sample, head), extent.queries, all.queries, extent.width);
      }
      if (dk.defined()) store_keys(s.dkeys, to_keys.rows(sample, key_head));
      if (dv.defined()) store_keys(s.dvalues, to_values.rows(sample, key_head));
    });
  });
}

}  // namespace sluice::kernels
