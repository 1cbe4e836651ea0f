#pragma once
// Attention in bf16 by the products of warpgroups, for sm_90a, backward: the two kernels of attention_mma_backward_cuda.cuh. Exponentials
// are computed while dy v^T runs, gradients of scores while p^T dy does.
#include "core/ops/attention_mma_backward_cuda.cuh"
#include "core/ops/attention_wgmma_cuda.cuh"

namespace sluice::kernels {

/// Sizes of a block for dq, whose warpgroups have 64 queries each.
template <int kWidth>
struct QueryGradientGroups {
  static constexpr int kThreads = 2 * kWarpgroup, kQueries = 2 * 64, kKeys = 128;
  static constexpr int kQueryTile = kWidth * kQueries, kKeyTile = kWidth * kKeys;
  static constexpr size_t kSharedBytes = kPanelAlignment + sizeof(bfloat16) * (2 * kQueryTile + 4 * kKeyTile);
};

/// Sizes of a block for dk and dv, whose warpgroups have 64 keys each.
template <int kWidth>
struct KeyGradientGroups {
  static constexpr int kThreads = 2 * kWarpgroup, kKeys = 2 * 64, kQueries = 64;
  static constexpr int kKeyTile = kWidth * kKeys, kQueryTile = kWidth * kQueries;
  static constexpr size_t kSharedBytes =
      kPanelAlignment + sizeof(bfloat16) * (2 * kKeyTile + 4 * kQueryTile) + sizeof(float) * 4 * kQueries;
};

/// dq of a tile of queries.
template <int kWidth, bool kHasLengths, class Shape = QueryGradientGroups<kWidth>>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    query_gradient_wgmma(Extent<kHasLengths> extent, float scale, Heads<bfloat16> q, Heads<bfloat16> k, Heads<bfloat16> v,
                         Heads<bfloat16> dy, const float* log_sum_exp, const float* row_sums, Heads<bfloat16> dq) {
  constexpr int kQueries = Shape::kQueries, kKeys = Shape::kKeys, kThreads = Shape::kThreads;
  constexpr float kLog2e = std::numbers::log2e_v<float>;
  const float factor = scale * kLog2e;
  const int tiles = tiles_of(extent.queries, kQueries);
  const BlockPlace at(tiles, extent.heads);
  const int first = (tiles - 1 - at.tile) * kQueries, key_head = at.head / extent.group();
  if constexpr (kHasLengths) {
    extent.keep_sample(at.sample);
    if (clear_padding(dq, at.sample, at.head, first, kQueries, extent.queries, extent.padded_queries(), 0, extent.width)) return;
  }
  const int row_of_group = group_of_block() * 64, first_of_group = first + row_of_group,
            first_of_warp = first_of_group + first_row_of_warp();
  bfloat16* const query_tile = dynamic_shared_panels();
  bfloat16 *const queries = query_tile + row_of_group * kPanelColumns, *const gradients = queries + Shape::kQueryTile;
  const KeyTiles<kWidth, Shape> key_tiles{k.rows(at.sample, key_head), v.rows(at.sample, key_head), extent.keys, extent.width,
                                          query_tile + 2 * Shape::kQueryTile};

  load_panels<kWidth, kQueries, kThreads>(q.rows(at.sample, at.head), first, extent.queries, extent.width, query_tile);
  load_panels<kWidth, kQueries, kThreads>(dy.rows(at.sample, at.head), first, extent.queries, extent.width, query_tile + Shape::kQueryTile);
  key_tiles.load(0);
  float exponents[2], row_sum[2];  // of this lane's rows
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_of_warp + row_in_block(2 * half);
    const int64_t place = extent.row_of(at.sample, at.head) + row;
    exponents[half] = row < extent.queries ? log_sum_exp[place] * kLog2e : 0;
    row_sum[half] = row < extent.queries ? row_sums[place] : 0;
  }
  Fragments<1, kWidth / 8> out;
  clear<1, kWidth / 8>(out);
  const int visible = extent.seen(min(first + kQueries, extent.queries) - 1);
  const int visible_to_group = extent.seen(first_of_group + 63), visible_to_all = extent.seen(first_of_warp);
  for (int first_key = 0; first_key < visible; first_key += kKeys) {
    const bfloat16* const tile = key_tiles.take(first_key, visible);
    if (first_key >= visible_to_group) continue;
    Fragments<1, kKeys / 8> weights, dscores;
    begin_products();
    start_dot_rows<kWidth, kQueries>(queries, tile, weights[0]);
    commit_products();
    start_dot_rows<kWidth, kQueries>(gradients, tile + Shape::kKeyTile, dscores[0]);
    commit_products();
    wait_for_products<1>();
    keep_sums(weights[0]);
    if (first_key + kKeys > visible_to_all) hide_keys<1, kKeys / 8>(extent, first_of_warp, first_key, weights);
#pragma unroll
    for (int t = 0; t < kKeys / 8; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) weights[0][t][e] = fast_exp2(weights[0][t][e] * factor - exponents[e / 2]);
    wait_for_products<0>();
    keep_sums(dscores[0]);
#pragma unroll
    for (int t = 0; t < kKeys / 8; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) dscores[0][t][e] = weights[0][t][e] * (dscores[0][t][e] - row_sum[e / 2]);
    uint32_t rounded[kKeys / 16][4];
    round_factor<kKeys / 16>(dscores, rounded);
    begin_products();
    start_product<kWidth, kKeys / 16>(rounded, tile, out);
    commit_products();
    wait_for_products<0>();
    keep_sums(out[0]);
  }
  store_group<kWidth, kQueries>(out, scale, queries, dq.rows(at.sample, at.head), first_of_group, extent.queries, extent.width);
}

/// dk and dv of a tile of keys, over all query heads that read them, in the order of heads and queries.
template <int kWidth, bool kHasLengths, class Shape = KeyGradientGroups<kWidth>>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    key_gradients_wgmma(Extent<kHasLengths> extent, float scale, Heads<bfloat16> q, Heads<bfloat16> k, Heads<bfloat16> v,
                        Heads<bfloat16> dy, const float* log_sum_exp, const float* row_sums, Heads<bfloat16> dk, Heads<bfloat16> dv) {
  constexpr int kKeys = Shape::kKeys, kQueries = Shape::kQueries, kThreads = Shape::kThreads, kQueryTile = Shape::kQueryTile;
  constexpr float kLog2e = std::numbers::log2e_v<float>;
  const float factor = scale * kLog2e;
  const BlockPlace at(tiles_of(extent.keys, kKeys), extent.key_heads);
  const int first = at.tile * kKeys, row_of_group = group_of_block() * 64;
  if constexpr (kHasLengths) {
    extent.keep_sample(at.sample);
    for (const Heads<bfloat16>& x : {dk, dv})
      clear_padding(x, at.sample, at.head, first, kKeys, extent.keys, extent.padded_keys(), 0, extent.width);
    if (first >= extent.keys) return;
  }
  const int first_of_group = first + row_of_group, first_of_warp = first_of_group + first_row_of_warp();
  bfloat16 *const key_tile = dynamic_shared_panels(), *const query_tiles = key_tile + 2 * Shape::kKeyTile;
  bfloat16 *const keys = key_tile + row_of_group * kPanelColumns, *const values = keys + Shape::kKeyTile;
  float* const rows = reinterpret_cast<float*>(query_tiles + 4 * kQueryTile);
  const int first_tile = extent.first_seeing(first) / kQueries, tiles = tiles_of(extent.queries, kQueries) - first_tile;
  const auto load_queries = [&](int step) {
    const int head = at.head * extent.group() + step / tiles, first_query = (first_tile + step % tiles) * kQueries;
    bfloat16* const tile = query_tiles + step % 2 * 2 * kQueryTile;
    load_panels<kWidth, kQueries, kThreads>(q.rows(at.sample, head), first_query, extent.queries, extent.width, tile);
    load_panels<kWidth, kQueries, kThreads>(dy.rows(at.sample, head), first_query, extent.queries, extent.width, tile + kQueryTile);
    load_of_queries<kQueries>(extent, log_sum_exp, row_sums, extent.row_of(at.sample, head), first_query, rows + step % 2 * 2 * kQueries);
    commit_copies();
  };

  const int steps = tiles * extent.group();
  if (steps > 0) {
    load_panels<kWidth, kKeys, kThreads>(k.rows(at.sample, at.head), first, extent.keys, extent.width, key_tile);
    load_panels<kWidth, kKeys, kThreads>(v.rows(at.sample, at.head), first, extent.keys, extent.width, key_tile + Shape::kKeyTile);
    load_queries(0);
  }
  Fragments<1, kWidth / 8> to_keys, to_values;
  clear<1, kWidth / 8>(to_keys);
  clear<1, kWidth / 8>(to_values);
  for (int step = 0; step < steps; ++step) {
    const int first_query = (first_tile + step % tiles) * kQueries;
    const bfloat16* tile = query_tiles + step % 2 * 2 * kQueryTile;
    const float* of_query = rows + step % 2 * 2 * kQueries;
    wait_for_copies();
    show_to_products();
    __syncthreads();  // this tile is there, and all warps are done with the one before it
    if (step + 1 < steps) load_queries(step + 1);
    if (first_of_group >= extent.seen(first_query + kQueries - 1)) continue;
    Fragments<1, kQueries / 8> weights, dscores;
    uint32_t of_values[kQueries / 16][4], of_keys[kQueries / 16][4];
    begin_products();
    start_dot_rows<kWidth, kKeys>(keys, tile, weights[0]);
    commit_products();
    start_dot_rows<kWidth, kKeys>(values, tile + kQueryTile, dscores[0]);
    commit_products();
    wait_for_products<1>();
    keep_sums(weights[0]);
    if (first_of_warp + 16 > extent.seen(first_query)) hide_from_queries<1, kQueries / 8>(extent, first_of_warp, first_query, weights);
#pragma unroll
    for (int t = 0; t < kQueries / 8; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) weights[0][t][e] = fast_exp2(weights[0][t][e] * factor - of_query[t * 8 + column_in_tile(e)] * kLog2e);
    round_factor<kQueries / 16>(weights, of_values);
    begin_products();
    start_product<kWidth, kQueries / 16>(of_values, tile + kQueryTile, to_values);
    commit_products();
    wait_for_products<1>();
    keep_sums(dscores[0]);
#pragma unroll
    for (int t = 0; t < kQueries / 8; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) dscores[0][t][e] = weights[0][t][e] * (dscores[0][t][e] - of_query[kQueries + t * 8 + column_in_tile(e)]);
    round_factor<kQueries / 16>(dscores, of_keys);
    begin_products();
    start_product<kWidth, kQueries / 16>(of_keys, tile, to_keys);
    commit_products();
    wait_for_products<0>();
    keep_sums(to_values[0]);
    keep_sums(to_keys[0]);
  }
  if (dk.data) store_group<kWidth, kKeys>(to_keys, scale, keys, dk.rows(at.sample, at.head), first_of_group, extent.keys, extent.width);
  if (dv.data) store_group<kWidth, kKeys>(to_values, 1, values, dv.rows(at.sample, at.head), first_of_group, extent.keys, extent.width);
}

}  // namespace sluice::kernels
