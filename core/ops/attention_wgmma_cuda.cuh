#pragma once
// Attention in bf16 by the products of warpgroups, for sm_90a, forward: as attention_mma_cuda.cuh, with each tile of keys read once for four
// warps. One warpgroup's exponentials run beside another's products. Source  Shah et al. 2024, arXiv:2407.08608, for the sizes of tiles.
#include "core/cuda/wgmma.h"
#include "core/ops/attention_mma_cuda.cuh"

namespace sluice::kernels {

/// The columns of a panel in sums as wide as a head.
template <int kTiles>
__device__ float (&panel_of(Fragments<1, kTiles>& sums, int panel))[8][4] {
  return *reinterpret_cast<float(*)[8][4]>(&sums[0][panel * 8]);
}

__device__ inline int group_of_block() { return static_cast<int>(threadIdx.x) / kWarpgroup; }
/// The first of a warp's 16 rows in its group's 64.
__device__ inline int first_row_of_warp() { return static_cast<int>(threadIdx.x) % kWarpgroup / kWarpSize * 16; }

/// load_tile to panels of kRows rows.
template <int kWidth, int kRows, int kThreads>
__device__ void load_panels(const HeadRows<bfloat16>& from, int first, int rows, int width, bfloat16* panels) {
  constexpr int kChunks = kWidth / 8, kRowsAtOnce = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && kRowsAtOnce % 8 == 0);  // a thread keeps to one place of a row
  const int row = threadIdx.x / kChunks, column = threadIdx.x % kChunks * 8;
  const int rows_left = column < width ? rows - first - row : 0;
  const bfloat16* source = from[first + row] + column;
  panels += column / kPanelColumns * kRows * kPanelColumns + place_in_panel(row, column % kPanelColumns);
#pragma unroll
  for (int i = 0; i < kRows; i += kRowsAtOnce, source += kRowsAtOnce * from.stride)
    if (i + kRowsAtOnce <= kRows || row < kRows - i) copy_async<16>(panels + i * kPanelColumns, source, i < rows_left);
}

/// The keys and values that a block of a Shape walks over: tiles of two at a time, of which one is copied while the other is worked on.
template <int kWidth, class Shape>
struct KeyTiles {
  HeadRows<bfloat16> keys, values;
  int rows, width;
  bfloat16* tiles;

  __device__ bfloat16* place(int first) const { return tiles + first / Shape::kKeys % 2 * 2 * Shape::kKeyTile; }
  __device__ void load(int first) const {
    load_panels<kWidth, Shape::kKeys, Shape::kThreads>(keys, first, rows, width, place(first));
    load_panels<kWidth, Shape::kKeys, Shape::kThreads>(values, first, rows, width, place(first) + Shape::kKeyTile);
    commit_copies();
  }
  /// The tile of keys from row `first` on, and behind it that of values. All threads of the block are done with the one before it, in whose
  /// place the next one comes, as far as rows are `visible`.
  __device__ const bfloat16* take(int first, int visible) const {
    wait_for_copies();
    show_to_products();
    __syncthreads();
    if (first + Shape::kKeys < visible) load(first + Shape::kKeys);
    return place(first);
  }
};

/// Starts sums = a b^T over the width: 64 rows of panels of kRowsOfA, and the 8 kTiles rows of others.
template <int kWidth, int kRowsOfA, int kTiles>
__device__ void start_dot_rows(const bfloat16* a, const bfloat16* b, float (&sums)[kTiles][4]) {
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    const int panel = k / kPanelColumns, column = k % kPanelColumns;
    multiply_rows(sums, part_of_panel(a + panel * kRowsOfA * kPanelColumns + column),
                  part_of_panel(b + panel * 8 * kTiles * kPanelColumns + column), k > 0);
  }
}

/// Starts sums += a b, of the 16 kSteps rows of panels.
template <int kWidth, int kSteps>
__device__ void start_product(const uint32_t (&a)[kSteps][4], const bfloat16* b, Fragments<1, kWidth / 8>& sums) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int panel = 0; panel < kWidth / kPanelColumns; ++panel)
      multiply_columns(panel_of(sums, panel), a[k], part_of_panel(b + (panel * kSteps + k) * 16 * kPanelColumns));
}

/// Sums of one product as the left factor of the next.
template <int kSteps>
__device__ void round_factor(const Fragments<1, 2 * kSteps>& sums, uint32_t (&factor)[kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) factor[k][i] = pack_bf16(sums[0][2 * k + i / 2][i % 2 * 2], sums[0][2 * k + i / 2][i % 2 * 2 + 1]);
}

/// Writes factor * sums to `to` from row `first`, through this group's 64 rows of panels of kRows that no other group uses.
template <int kWidth, int kRows>
__device__ void store_group(const Fragments<1, kWidth / 8>& sums, float factor, bfloat16* panels, const HeadRows<bfloat16>& to, int first,
                            int rows, int width) {
  const auto place = [&](int row, int column) {
    return panels + column / kPanelColumns * kRows * kPanelColumns + place_in_panel(first_row_of_warp() + row, column % kPanelColumns);
  };
#pragma unroll
  for (int t = 0; t < kWidth / 8; ++t)
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const auto& tile = sums[0][t];
      *reinterpret_cast<uint32_t*>(place(row_in_block(e), t * 8 + column_in_tile(e))) = pack_bf16(tile[e] * factor, tile[e + 1] * factor);
    }
  __syncwarp();
  for (int chunk = lane_of_warp(); chunk < 16 * kWidth / 8; chunk += kWarpSize) {
    const int row = chunk / (kWidth / 8), column = chunk % (kWidth / 8) * 8, in_head = first + first_row_of_warp() + row;
    if (in_head < rows && column < width) store_pack(to[in_head] + column, load_pack(place(row, column)));
  }
}

/// Sizes of a block, whose warpgroups have 64 queries each.
template <int kWidth>
struct ForwardGroups {
  static constexpr int kGroups = kWidth > 64 ? 2 : 3, kThreads = kGroups * kWarpgroup, kQueries = kGroups * 64, kKeys = 128;
  static constexpr int kQueryTile = kWidth * kQueries, kKeyTile = kWidth * kKeys;
  static constexpr size_t kSharedBytes = kPanelAlignment + sizeof(bfloat16) * (kQueryTile + 4 * kKeyTile);
};

/// y and log_sum_exp of a tile of queries.
template <int kWidth, bool kHasLengths, class Shape = ForwardGroups<kWidth>>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attend_wgmma(Extent<kHasLengths> extent, float scale, Heads<bfloat16> q, Heads<bfloat16> k, Heads<bfloat16> v, Heads<bfloat16> y,
                 float* log_sum_exp) {
  constexpr int kQueries = Shape::kQueries, kKeys = Shape::kKeys, kThreads = Shape::kThreads;
  const float factor = scale * std::numbers::log2e_v<float>;
  const int tiles = tiles_of(extent.queries, kQueries);
  const BlockPlace at(tiles, extent.heads);
  const int first = (tiles - 1 - at.tile) * kQueries, key_head = at.head / extent.group();
  if constexpr (kHasLengths) {
    extent.keep_sample(at.sample);
    if (clear_padding(y, at.sample, at.head, first, kQueries, extent.queries, extent.padded_queries(), 0, extent.width)) return;
  }
  const int row_of_group = group_of_block() * 64, first_of_group = first + row_of_group,
            first_of_warp = first_of_group + first_row_of_warp();
  bfloat16 *const query_tile = dynamic_shared_panels(), *const queries = query_tile + row_of_group * kPanelColumns;
  const KeyTiles<kWidth, Shape> key_tiles{k.rows(at.sample, key_head), v.rows(at.sample, key_head), extent.keys, extent.width,
                                          query_tile + Shape::kQueryTile};

  load_panels<kWidth, kQueries, kThreads>(q.rows(at.sample, at.head), first, extent.queries, extent.width, query_tile);
  key_tiles.load(0);
  OnlineSoftmax<1> softmax;
#pragma unroll
  for (int half = 0; half < 2; ++half) softmax.maximum[0][half] = -INFINITY, softmax.sum[0][half] = 0;
  Fragments<1, kWidth / 8> out;
  clear<1, kWidth / 8>(out);
  const int visible = extent.seen(min(first + kQueries, extent.queries) - 1);
  const int visible_to_group = extent.seen(first_of_group + 63), visible_to_all = extent.seen(first_of_warp);
  for (int first_key = 0; first_key < visible; first_key += kKeys) {
    const bfloat16* const tile = key_tiles.take(first_key, visible);
    if (first_key >= visible_to_group) continue;
    Fragments<1, kKeys / 8> scores;
    begin_products();
    start_dot_rows<kWidth, kQueries>(queries, tile, scores[0]);
    commit_products();
    wait_for_products<0>();
    keep_sums(scores[0]);
    if (first_key + kKeys > visible_to_all) hide_keys<1, kKeys / 8>(extent, first_of_warp, first_key, scores);
    raise_maximum<1, kKeys / 8, kWidth / 8>(factor, scores, softmax, out);
    take_scores<1, kKeys / 8>(factor, scores, softmax);
    uint32_t weights[kKeys / 16][4];
    round_factor<kKeys / 16>(scores, weights);
    begin_products();
    start_product<kWidth, kKeys / 16>(weights, tile + Shape::kKeyTile, out);
    commit_products();
    wait_for_products<0>();
    keep_sums(out[0]);
  }
  finish_rows<1, kWidth / 8>(scale, softmax, first_of_warp, extent.queries, out, log_sum_exp + extent.row_of(at.sample, at.head));
  store_group<kWidth, kQueries>(out, 1, queries, y.rows(at.sample, at.head), first_of_group, extent.queries, extent.width);
}

}  // namespace sluice::kernels
