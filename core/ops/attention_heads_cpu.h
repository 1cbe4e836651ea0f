#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/cpu/cpu.h"
#include "core/ops/attention.h"
#include "core/ops/tile_product.h"

/// What the ways of attention on CPUs share: where rows of heads are, which keys a query sees, and blocks of scores.
namespace sluice::kernels::attention_heads {

constexpr int64_t kQueries = 32;  // rows of a block of scores: few, because a causal block computes what it then masks
constexpr int64_t kKeys = 256;    // its columns: 32 KiB in f32, and the product with the values has a long sum

/// Between the rows of a block of scores, of queries that see this many keys.
inline int64_t block_step_of(int64_t keys) { return padded_step(std::min(kKeys, keys)); }

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

/// sums = of the elements of each row of a times those of b, padded rows.
template <class C>
void sum_products(C* a, C* b, int64_t rows, int64_t width, C* sums) {
  const int64_t step = padded_step(width);
  for (int64_t i = 0; i < rows; ++i) sums[i] = (Row<C>(a + i * step, width) * Row<C>(b + i * step, width)).sum();
}

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

}  // namespace sluice::kernels::attention_heads
