#pragma once
// Attention in bf16 on tensor cores, backward. With weights p from the scores and log_sum_exp, and D = sum(dy * y) of a query:
// ds = p (dy v^T - D), dq = scale ds k, dk = scale ds^T q, dv = p^T dy.
//
// Two kernels, one over tiles of queries for dq and one over tiles of keys for dk and dv. Dao 2023 (arXiv:2307.08691) has one of the second
// kind, which adds its parts of dq with atomics: five products where these two make seven. But a fixed order of those additions costs
// either f32 scratch of dq times the number of key tiles or blocks that wait for each other; two kernels need neither, hold every factor
// that they made in registers, and pass none through shared memory.
#include "core/ops/attention_mma_cuda.cuh"

namespace sluice::kernels {

/// Sizes of a block for dq: as forward, with fewer keys at a time where dq takes more of the registers.
template <int kWidth>
struct QueryGradientShape {
  static constexpr int kWarps = 4, kBlocks = ForwardShape<kWidth>::kBlocks, kKeys = kWidth > 128 ? 16 : kWidth > 64 ? 32 : 64;
  static constexpr int kThreads = kWarps * kWarpSize, kQueries = kWarps * kBlocks * 16;
  static constexpr int kQueryTile = kTileElements<kWidth, kQueries>, kKeyTile = kTileElements<kWidth, kKeys>;
  static constexpr size_t kSharedBytes = sizeof(bfloat16) * (2 * kQueryTile + 4 * kKeyTile);
};

/// Sizes of a block for dk and dv, which take two thirds of the registers: 16 rows of keys a warp where the width is above 64. Above 128 a
/// warp has registers for one of the two: blocks of y = 0 make dv, those of y = 1 dk, and both make the scores.
template <int kWidth>
struct KeyGradientShape {
  static constexpr bool kApart = kWidth > 128, kIsWide = kWidth > 64 && !kApart;
  static constexpr int kWarps = kIsWide ? 8 : 4, kBlocks = kWidth > 64 ? 1 : 2, kQueries = kApart ? 16 : kIsWide ? 64 : 32;
  static constexpr int kThreads = kWarps * kWarpSize, kKeys = kWarps * kBlocks * 16;
  static constexpr int kBlocksOfMultiprocessor = kIsWide ? 1 : 2;
  static constexpr int kQueryTile = kTileElements<kWidth, kQueries>, kKeyTile = kTileElements<kWidth, kKeys>;
  static constexpr size_t kSharedBytes = sizeof(bfloat16) * (2 * kKeyTile + 4 * kQueryTile) + sizeof(float) * 4 * kQueries;
};

/// dq of a tile of queries.
template <int kWidth, bool kHasLengths, class Shape = QueryGradientShape<kWidth>>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    query_gradient_mma(Extent<kHasLengths> extent, float scale, Heads<bfloat16> q, Heads<bfloat16> k, Heads<bfloat16> v, Heads<bfloat16> dy,
                       const float* log_sum_exp, const float* row_sums, Heads<bfloat16> dq) {
  constexpr int kBlocks = Shape::kBlocks, kKeys = Shape::kKeys, kThreads = Shape::kThreads, kKeyTile = Shape::kKeyTile;
  constexpr float kLog2e = std::numbers::log2e_v<float>;
  const float factor = scale * kLog2e;
  const int tiles = tiles_of(extent.queries, Shape::kQueries);
  const BlockPlace at(tiles, extent.heads);
  const int first = (tiles - 1 - at.tile) * Shape::kQueries, key_head = at.head / extent.group();
  if constexpr (kHasLengths) {
    extent.keep_sample(at.sample);
    if (clear_padding(dq, at.sample, at.head, first, Shape::kQueries, extent.queries, extent.padded_queries(), 0, extent.width)) return;
  }
  const int row_of_warp = static_cast<int>(threadIdx.x) / kWarpSize * kBlocks * 16, first_of_warp = first + row_of_warp;
  const HeadRows<bfloat16> keys = k.rows(at.sample, key_head), values = v.rows(at.sample, key_head);
  bfloat16 *const query_tile = dynamic_shared<bfloat16>(), *const key_tiles = query_tile + 2 * Shape::kQueryTile;
  bfloat16 *const queries = query_tile + row_of_warp * kRowStride<kWidth>, *const gradients = queries + Shape::kQueryTile;
  const auto load_keys = [&](int first_key, bfloat16* tile) {
    load_tile<kWidth, kKeys, kThreads>(keys, first_key, extent.keys, extent.width, tile);
    load_tile<kWidth, kKeys, kThreads>(values, first_key, extent.keys, extent.width, tile + kKeyTile);
    commit_copies();
  };

  load_tile<kWidth, Shape::kQueries, kThreads>(q.rows(at.sample, at.head), first, extent.queries, extent.width, query_tile);
  load_tile<kWidth, Shape::kQueries, kThreads>(dy.rows(at.sample, at.head), first, extent.queries, extent.width,
                                               query_tile + Shape::kQueryTile);
  load_keys(0, key_tiles);
  __shared__ float exponents[Shape::kQueries], sums[Shape::kQueries];  // of the rows, read anew for each tile: registers are full
  for (int row = threadIdx.x; row < Shape::kQueries; row += kThreads) {
    const int64_t place = extent.row_of(at.sample, at.head) + first + row;
    const bool is_there = first + row < extent.queries;
    exponents[row] = is_there ? log_sum_exp[place] * kLog2e : 0;
    sums[row] = is_there ? row_sums[place] : 0;
  }
  Fragments<kBlocks, kWidth / 8> out;
  clear<kBlocks, kWidth / 8>(out);
  const int visible = extent.seen(min(first + Shape::kQueries, extent.queries) - 1);
  const int visible_to_warp = extent.seen(first_of_warp + kBlocks * 16 - 1), visible_to_all = extent.seen(first_of_warp);
  for (int first_key = 0; first_key < visible; first_key += kKeys) {
    const bfloat16* tile = key_tiles + first_key / kKeys % 2 * 2 * kKeyTile;
    wait_for_copies();
    __syncthreads();  // this tile is there, and all warps are done with the one before it
    if (first_key + kKeys < visible) load_keys(first_key + kKeys, key_tiles + (first_key / kKeys + 1) % 2 * 2 * kKeyTile);
    if (first_key >= visible_to_warp) continue;
    Fragments<kBlocks, kKeys / 8> weights, dscores;
    dot_rows<kWidth, kBlocks, kKeys / 8>(queries, tile, weights);
    if (first_key + kKeys > visible_to_all) hide_keys<kBlocks, kKeys / 8>(extent, first_of_warp, first_key, weights);
    dot_rows<kWidth, kBlocks, kKeys / 8>(gradients, tile + kKeyTile, dscores);
#pragma unroll
    for (int r = 0; r < kBlocks; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = row_of_warp + r * 16 + row_in_block(e);
        const float exponent = exponents[row], sum = sums[row];
#pragma unroll
        for (int t = 0; t < kKeys / 8; ++t) dscores[r][t][e] = fast_exp2(weights[r][t][e] * factor - exponent) * (dscores[r][t][e] - sum);
      }
    add_product<kWidth, kBlocks, kKeys / 8>(dscores, tile, out);
  }
  multiply<kBlocks, kWidth / 8>(out, scale);
  store_rows<kWidth, kBlocks>(out, queries, dq.rows(at.sample, at.head), first_of_warp, extent.queries, extent.width);
}

/// Replaces by -infinity the scores, keys x queries, of keys that the column's query does not see.
template <int kBlocks, int kTiles, bool kHasLengths>
__device__ void hide_from_queries(const Extent<kHasLengths>& extent, int first_key, int first_query, Fragments<kBlocks, kTiles>& scores) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int seen = extent.seen(first_query + t * 8 + column_in_tile(e)) - first_key;
#pragma unroll
      for (int r = 0; r < kBlocks; ++r)
        if (r * 16 + row_in_block(e) >= seen) scores[r][t][e] = -INFINITY;
    }
}

/// Turns scores and dy v^T, keys x queries, into weights and gradients of scores.
template <int kBlocks, int kTiles>
__device__ void softmax_gradient(float factor, const float* log_sum_exp, const float* row_sums, Fragments<kBlocks, kTiles>& weights,
                                 Fragments<kBlocks, kTiles>& dscores) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int column = t * 8 + column_in_tile(odd);
      const float exponent = log_sum_exp[column] * std::numbers::log2e_v<float>, row_sum = row_sums[column];
#pragma unroll
      for (int r = 0; r < kBlocks; ++r)
#pragma unroll
        for (int e = odd; e < 4; e += 2) {
          weights[r][t][e] = fast_exp2(weights[r][t][e] * factor - exponent);
          dscores[r][t][e] = weights[r][t][e] * (dscores[r][t][e] - row_sum);
        }
    }
}

/// Starts the copy of kQueries log_sum_exp and as many row_sums, from a head's `first_row` and its query `first` on; zeros where there is none.
template <int kQueries, bool kHasLengths>
__device__ void load_of_queries(const Extent<kHasLengths>& extent, const float* log_sum_exp, const float* row_sums, int64_t first_row,
                                int first, float* to) {
  if (threadIdx.x >= 2 * kQueries) return;
  const int row = first + threadIdx.x % kQueries;
  const float* from = threadIdx.x < kQueries ? log_sum_exp : row_sums;
  const bool is_there = row < extent.queries;
  copy_async<4>(to + threadIdx.x, from + first_row + (is_there ? row : 0), is_there);
}

/// dk and dv of a tile of keys, over all query heads that read them, in the order of heads and queries.
template <int kWidth, bool kHasLengths, class Shape = KeyGradientShape<kWidth>>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksOfMultiprocessor)
    key_gradients_mma(Extent<kHasLengths> extent, float scale, Heads<bfloat16> q, Heads<bfloat16> k, Heads<bfloat16> v, Heads<bfloat16> dy,
                      const float* log_sum_exp, const float* row_sums, Heads<bfloat16> dk, Heads<bfloat16> dv) {
  constexpr int kBlocks = Shape::kBlocks, kQueries = Shape::kQueries, kThreads = Shape::kThreads, kQueryTile = Shape::kQueryTile;
  constexpr bool kApart = Shape::kApart;
  const bool makes_keys = !kApart || blockIdx.y == 1, makes_values = !kApart || blockIdx.y == 0;
  if (kApart && !(makes_keys ? dk : dv).data) return;
  const BlockPlace at(tiles_of(extent.keys, Shape::kKeys), extent.key_heads);
  const int first = at.tile * Shape::kKeys, row_of_warp = static_cast<int>(threadIdx.x) / kWarpSize * kBlocks * 16;
  if constexpr (kHasLengths) {
    extent.keep_sample(at.sample);
    const auto clear = [&](const Heads<bfloat16>& x) {
      clear_padding(x, at.sample, at.head, first, Shape::kKeys, extent.keys, extent.padded_keys(), 0, extent.width);
    };
    if (makes_keys) clear(dk);
    if (makes_values) clear(dv);
    if (first >= extent.keys) return;
  }
  const int first_of_warp = first + row_of_warp;
  bfloat16 *const key_tile = dynamic_shared<bfloat16>(), *const query_tiles = key_tile + 2 * Shape::kKeyTile;
  bfloat16 *const keys = key_tile + row_of_warp * kRowStride<kWidth>, *const values = keys + Shape::kKeyTile;
  float* const rows = reinterpret_cast<float*>(query_tiles + 4 * kQueryTile);
  const int first_tile = extent.first_seeing(first) / kQueries, tiles = tiles_of(extent.queries, kQueries) - first_tile;
  const auto load_queries = [&](int step) {
    const int head = at.head * extent.group() + step / tiles, first_query = (first_tile + step % tiles) * kQueries;
    bfloat16* const tile = query_tiles + step % 2 * 2 * kQueryTile;
    load_tile<kWidth, kQueries, kThreads>(q.rows(at.sample, head), first_query, extent.queries, extent.width, tile);
    load_tile<kWidth, kQueries, kThreads>(dy.rows(at.sample, head), first_query, extent.queries, extent.width, tile + kQueryTile);
    load_of_queries<kQueries>(extent, log_sum_exp, row_sums, extent.row_of(at.sample, head), first_query, rows + step % 2 * 2 * kQueries);
    commit_copies();
  };

  const int steps = tiles * extent.group();
  if (steps > 0) {
    load_tile<kWidth, Shape::kKeys, kThreads>(k.rows(at.sample, at.head), first, extent.keys, extent.width, key_tile);
    load_tile<kWidth, Shape::kKeys, kThreads>(v.rows(at.sample, at.head), first, extent.keys, extent.width, key_tile + Shape::kKeyTile);
    load_queries(0);
  }
  Fragments<kBlocks, kWidth / 8> sums[kApart ? 1 : 2];
  auto &to_values = sums[0], &to_keys = sums[kApart ? 0 : 1];
  clear<kBlocks, kWidth / 8>(to_values);
  if (!kApart) clear<kBlocks, kWidth / 8>(to_keys);
  for (int step = 0; step < steps; ++step) {
    const int first_query = (first_tile + step % tiles) * kQueries;
    const bfloat16* tile = query_tiles + step % 2 * 2 * kQueryTile;
    const float* of_query = rows + step % 2 * 2 * kQueries;
    wait_for_copies();
    __syncthreads();  // this tile is there, and all warps are done with the one before it
    if (step + 1 < steps) load_queries(step + 1);
    if (first_of_warp >= extent.seen(first_query + kQueries - 1)) continue;
    Fragments<kBlocks, kQueries / 8> weights, dscores;
    dot_rows<kWidth, kBlocks, kQueries / 8>(keys, tile, weights);
    makes_keys ? dot_rows<kWidth, kBlocks, kQueries / 8>(values, tile + kQueryTile, dscores) : clear<kBlocks, kQueries / 8>(dscores);
    if (first_of_warp + kBlocks * 16 > extent.seen(first_query))
      hide_from_queries<kBlocks, kQueries / 8>(extent, first_of_warp, first_query, weights);
    softmax_gradient<kBlocks, kQueries / 8>(scale * std::numbers::log2e_v<float>, of_query, of_query + kQueries, weights, dscores);
    if (makes_values) add_product<kWidth, kBlocks, kQueries / 8>(weights, tile + kQueryTile, to_values);
    if (makes_keys) add_product<kWidth, kBlocks, kQueries / 8>(dscores, tile, to_keys);
  }
  if (makes_keys) multiply<kBlocks, kWidth / 8>(to_keys, scale);
  if (makes_keys && dk.data)
    store_rows<kWidth, kBlocks>(to_keys, keys, dk.rows(at.sample, at.head), first_of_warp, extent.keys, extent.width);
  if (makes_values && dv.data)
    store_rows<kWidth, kBlocks>(to_values, values, dv.rows(at.sample, at.head), first_of_warp, extent.keys, extent.width);
}

}  // namespace sluice::kernels
