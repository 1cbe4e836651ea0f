#pragma once
// Attention for every dtype, width and stride, by tiles in shared memory. Blocks have 16 x 16 threads; a thread (x, y) holds the elements
// (y + 16 i, x + 16 j) of a square tile. Columns of a result beyond one tile go to further blocks, which compute the scores again.
#include "core/ops/attention_heads_cuda.cuh"

namespace sluice::kernels {

constexpr int kSide = 16;  ///< threads along each side of a block, and how much of a sum is in shared memory at a time
/// Rows and columns a thread.
template <class C>
constexpr int kEach = sizeof(C) == 8 ? 2 : 4;
template <class C>
constexpr int kTile = kSide* kEach<C>;
template <class C>
using Square = C[kEach<C>][kEach<C>];
template <class C>
using SharedSquare = C[kTile<C>][kTile<C> + 1];  // one column more, so that a column's elements lie in different banks

/// sums = a b^T for tiles of rows: from row first_a of the a.count rows, and likewise b. Rows that are not there count as zeros.
template <class T, class C>
__device__ void dot_rows(HeadRows<T> a, int first_a, int rows_a, HeadRows<T> b, int first_b, int rows_b, int width, Square<C>& sums) {
  constexpr int kRows = kTile<C>, kCount = kEach<C>;
  __shared__ C part_a[kRows][kSide + 1], part_b[kRows][kSide + 1];
  for (int i = 0; i < kCount; ++i)
    for (int j = 0; j < kCount; ++j) sums[i][j] = 0;
  for (int step = 0; step < width; step += kSide) {
    const int column = step + threadIdx.x;
    for (int row = threadIdx.y; row < kRows; row += kSide) {
      const bool a_is_there = first_a + row < rows_a && column < width, b_is_there = first_b + row < rows_b && column < width;
      part_a[row][threadIdx.x] = a_is_there ? static_cast<C>(a[first_a + row][column]) : C(0);
      part_b[row][threadIdx.x] = b_is_there ? static_cast<C>(b[first_b + row][column]) : C(0);
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kSide; ++k)
#pragma unroll
      for (int i = 0; i < kCount; ++i)
#pragma unroll
        for (int j = 0; j < kCount; ++j) sums[i][j] += part_a[threadIdx.y + kSide * i][k] * part_b[threadIdx.x + kSide * j][k];
    __syncthreads();
  }
}

/// sums += weights b, for the rows of b from first_b and its columns from first_column. The block may write `weights` just before.
template <class T, class C>
__device__ void add_product(const SharedSquare<C>& weights, HeadRows<T> b, int first_b, int rows_b, int first_column, int width,
                            Square<C>& sums) {
  constexpr int kRows = kTile<C>, kCount = kEach<C>;
  __shared__ C part[kSide][kRows];
  for (int step = 0; step < kRows; step += kSide) {
    const int row = first_b + step + threadIdx.y;
    for (int column = threadIdx.x; column < kRows; column += kSide) {
      const bool is_there = row < rows_b && first_column + column < width;
      part[threadIdx.y][column] = is_there ? static_cast<C>(b[row][first_column + column]) : C(0);
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kSide; ++k)
#pragma unroll
      for (int i = 0; i < kCount; ++i)
#pragma unroll
        for (int j = 0; j < kCount; ++j) sums[i][j] += weights[threadIdx.y + kSide * i][step + k] * part[k][threadIdx.x + kSide * j];
    __syncthreads();
  }
}

template <class C>
__device__ void share(const Square<C>& values, SharedSquare<C>& to) {
  for (int i = 0; i < kEach<C>; ++i)
    for (int j = 0; j < kEach<C>; ++j) to[threadIdx.y + kSide * i][threadIdx.x + kSide * j] = values[i][j];
}

template <class T, class C>
__device__ void store_square(const Square<C>& values, C factor, HeadRows<T> to, int first_row, int rows, int first_column, int width) {
  for (int i = 0; i < kEach<C>; ++i)
    for (int j = 0; j < kEach<C>; ++j) {
      const int row = first_row + threadIdx.y + kSide * i, column = first_column + threadIdx.x + kSide * j;
      if (row < rows && column < width) to[row][column] = static_cast<T>(values[i][j] * factor);
    }
}

/// Combines the values of the 16 threads that hold one row.
template <class C, class Combine>
__device__ C over_row(C value, Combine combine) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) value = combine(value, __shfl_xor_sync(kWholeWarp, value, distance));
  return value;
}

constexpr int kRowLanes = 8;  ///< that share a row of row_sums

/// sums [B, H, T] = sum of dy * y over each query's row. A thread reads kCount elements at a time.
template <class T, int kCount, class C = compute_t<T>>
__global__ void row_sums(Extent<true> extent, Heads<T> y, Heads<T> dy, C* sums) {
  const int64_t item = grid_index() / kRowLanes, rows = int64_t{extent.samples} * extent.heads * extent.padded_queries();
  const int64_t place = min(item, rows - 1);  // all lanes take part in the shuffles
  const int row = place % extent.padded_queries(), head = place / extent.padded_queries() % extent.heads;
  const int sample = place / extent.padded_queries() / extent.heads;
  extent.keep_sample(sample);
  const int width = row < extent.queries ? extent.width : 0;
  const T *outputs = y.rows(sample, head)[row], *gradients = dy.rows(sample, head)[row];
  C sum = 0;
  for (int column = threadIdx.x % kRowLanes * kCount; column < width; column += kRowLanes * kCount) {
    struct alignas(sizeof(T) * kCount) Part {
      T at[kCount];
    };
    const Part a = *reinterpret_cast<const Part*>(outputs + column), b = *reinterpret_cast<const Part*>(gradients + column);
    for (int i = 0; i < kCount; ++i) sum += static_cast<C>(a.at[i]) * static_cast<C>(b.at[i]);
  }
  for (int distance = kRowLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, distance);
  if (item < rows && threadIdx.x % kRowLanes == 0) sums[item] = sum;
}

/// clear_padding for the block's square of x.
template <class T, class C>
__device__ bool clear_padding(const Extent<true>& extent, const BlockPlace& at, int kept_rows, int padded_rows, const Heads<T>& x) {
  const int column = blockIdx.y * kTile<C>;
  return clear_padding(x, at.sample, at.head, at.tile * kTile<C>, kTile<C>, kept_rows, padded_rows, column,
                       min(column + kTile<C>, extent.width));
}

/// y and log_sum_exp of a tile of queries.
template <class T, class C = compute_t<T>>
__global__ void __launch_bounds__(kSide* kSide)
    attend(Extent<true> extent, C scale, Heads<T> q, Heads<T> k, Heads<T> v, Heads<T> y, C* log_sum_exp) {
  __shared__ SharedSquare<C> weights;
  const BlockPlace at(tiles_of(extent.queries, kTile<C>), extent.heads);
  const int first = at.tile * kTile<C>, first_column = blockIdx.y * kTile<C>, key_head = at.head / extent.group();
  extent.keep_sample(at.sample);
  if (clear_padding<T, C>(extent, at, extent.queries, extent.padded_queries(), y)) return;
  const HeadRows<T> queries = q.rows(at.sample, at.head), keys = k.rows(at.sample, key_head), values = v.rows(at.sample, key_head);
  Square<C> out = {}, scores;
  C maximum[kEach<C>], sum[kEach<C>] = {};
  for (C& value : maximum) value = -static_cast<C>(INFINITY);
  const int visible = extent.seen(min(first + kTile<C>, extent.queries) - 1);
  for (int first_key = 0; first_key < visible; first_key += kTile<C>) {
    dot_rows<T, C>(queries, first, extent.queries, keys, first_key, extent.keys, extent.width, scores);
    for (int i = 0; i < kEach<C>; ++i) {
      const int seen = extent.seen(first + threadIdx.y + kSide * i) - first_key;
      C largest = maximum[i];
      for (int j = 0; j < kEach<C>; ++j) {
        const int key = threadIdx.x + kSide * j;
        scores[i][j] = key < seen ? scores[i][j] * scale : -static_cast<C>(INFINITY);
        largest = larger(largest, scores[i][j]);
      }
      largest = over_row(largest, [](C a, C b) { return larger(a, b); });
      const C factor = ::exp(maximum[i] - largest);
      maximum[i] = largest;
      sum[i] *= factor;
      for (int j = 0; j < kEach<C>; ++j) {
        out[i][j] *= factor;
        scores[i][j] = ::exp(scores[i][j] - largest);
        sum[i] += scores[i][j];
      }
    }
    share<C>(scores, weights);
    add_product<T, C>(weights, values, first_key, extent.keys, first_column, extent.width, out);
  }
  for (int i = 0; i < kEach<C>; ++i) {
    sum[i] = over_row(sum[i], [](C a, C b) { return a + b; });
    for (int j = 0; j < kEach<C>; ++j) out[i][j] /= sum[i];
    const int row = first + threadIdx.y + kSide * i;
    if (blockIdx.y == 0 && threadIdx.x == 0 && row < extent.queries)
      log_sum_exp[extent.row_of(at.sample, at.head) + row] = maximum[i] + ::log(sum[i]);
  }
  store_square<T, C>(out, C(1), y.rows(at.sample, at.head), first, extent.queries, first_column, extent.width);
}

/// dq of a tile of queries.
template <class T, class C = compute_t<T>>
__global__ void __launch_bounds__(kSide* kSide) query_gradient(Extent<true> extent, C scale, Heads<T> q, Heads<T> k, Heads<T> v,
                                                               Heads<T> dy, const C* log_sum_exp, const C* row_sums, Heads<T> dq) {
  __shared__ SharedSquare<C> shared;
  const BlockPlace at(tiles_of(extent.queries, kTile<C>), extent.heads);
  const int first = at.tile * kTile<C>, first_column = blockIdx.y * kTile<C>, key_head = at.head / extent.group();
  extent.keep_sample(at.sample);
  if (clear_padding<T, C>(extent, at, extent.queries, extent.padded_queries(), dq)) return;
  const HeadRows<T> queries = q.rows(at.sample, at.head), keys = k.rows(at.sample, key_head), values = v.rows(at.sample, key_head);
  const int64_t row_of_head = extent.row_of(at.sample, at.head);
  Square<C> out = {}, scores, dweights;
  const int visible = extent.seen(min(first + kTile<C>, extent.queries) - 1);
  for (int first_key = 0; first_key < visible; first_key += kTile<C>) {
    dot_rows<T, C>(queries, first, extent.queries, keys, first_key, extent.keys, extent.width, scores);
    dot_rows<T, C>(dy.rows(at.sample, at.head), first, extent.queries, values, first_key, extent.keys, extent.width, dweights);
    for (int i = 0; i < kEach<C>; ++i) {
      const int row = first + threadIdx.y + kSide * i, seen = row < extent.queries ? extent.seen(row) - first_key : 0;
      for (int j = 0; j < kEach<C>; ++j)
        scores[i][j] = static_cast<int>(threadIdx.x) + kSide * j < seen
                           ? ::exp(scores[i][j] * scale - log_sum_exp[row_of_head + row]) * (dweights[i][j] - row_sums[row_of_head + row])
                           : C(0);
    }
    share<C>(scores, shared);
    add_product<T, C>(shared, keys, first_key, extent.keys, first_column, extent.width, out);
  }
  store_square<T, C>(out, scale, dq.rows(at.sample, at.head), first, extent.queries, first_column, extent.width);
}

/// dk and dv of a tile of keys, over all query heads that read them.
template <class T, class C = compute_t<T>>
__global__ void __launch_bounds__(kSide* kSide) key_gradients(Extent<true> extent, C scale, Heads<T> q, Heads<T> k, Heads<T> v, Heads<T> dy,
                                                              const C* log_sum_exp, const C* row_sums, Heads<T> dk, Heads<T> dv) {
  __shared__ SharedSquare<C> shared;
  const BlockPlace at(tiles_of(extent.keys, kTile<C>), extent.key_heads);
  const int first = at.tile * kTile<C>, first_column = blockIdx.y * kTile<C>;
  extent.keep_sample(at.sample);
  clear_padding<T, C>(extent, at, extent.keys, extent.padded_keys(), dk);
  if (clear_padding<T, C>(extent, at, extent.keys, extent.padded_keys(), dv)) return;
  const HeadRows<T> keys = k.rows(at.sample, at.head), values = v.rows(at.sample, at.head);
  Square<C> to_keys = {}, to_values = {}, weights, dscores;
  for (int head = at.head * extent.group(); head < (at.head + 1) * extent.group(); ++head) {
    const HeadRows<T> queries = q.rows(at.sample, head), gradients = dy.rows(at.sample, head);
    const int64_t row_of_head = extent.row_of(at.sample, head);
    for (int first_query = extent.first_seeing(first); first_query < extent.queries; first_query += kTile<C>) {
      dot_rows<T, C>(keys, first, extent.keys, queries, first_query, extent.queries, extent.width, weights);
      dot_rows<T, C>(values, first, extent.keys, gradients, first_query, extent.queries, extent.width, dscores);
      for (int j = 0; j < kEach<C>; ++j) {
        const int query = first_query + threadIdx.x + kSide * j, seen = query < extent.queries ? extent.seen(query) - first : 0;
        for (int i = 0; i < kEach<C>; ++i) {
          const bool is_seen = static_cast<int>(threadIdx.y) + kSide * i < seen;
          weights[i][j] = is_seen ? ::exp(weights[i][j] * scale - log_sum_exp[row_of_head + query]) : C(0);
          dscores[i][j] = is_seen ? weights[i][j] * (dscores[i][j] - row_sums[row_of_head + query]) : C(0);
        }
      }
      share<C>(weights, shared);
      add_product<T, C>(shared, gradients, first_query, extent.queries, first_column, extent.width, to_values);
      share<C>(dscores, shared);
      add_product<T, C>(shared, queries, first_query, extent.queries, first_column, extent.width, to_keys);
    }
  }
  if (dk.data) store_square<T, C>(to_keys, scale, dk.rows(at.sample, at.head), first, extent.keys, first_column, extent.width);
  if (dv.data) store_square<T, C>(to_values, C(1), dv.rows(at.sample, at.head), first, extent.keys, first_column, extent.width);
}

}  // namespace sluice::kernels
