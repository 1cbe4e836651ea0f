#pragma once
// Attention in bf16 on tensor cores, forward. Source  Dao 2023, arXiv:2307.08691: a block takes a tile of queries and walks over tiles of
// keys; scores, their running maximum and sum, and the output stay in registers. The next tile is copied while one is worked on.
#include <numbers>

#include "core/ops/attention_tiles_cuda.cuh"

namespace sluice::kernels {

/// Sizes of a block: each of kWarps warps holds kBlocks x 16 rows of queries, which share every load of keys from shared memory: with 16
/// rows only, shared memory would be slower than the tensor cores. Two blocks fit a multiprocessor, so that one computes exponentials
/// while the other multiplies. Outputs wider than 128 leave registers for 16 rows a warp alone.
template <int kWidth>
struct ForwardShape {
  static constexpr int kWarps = 4, kBlocks = kWidth > 128 ? 1 : 2, kKeys = kWidth > 128 ? 32 : 64;
  static constexpr int kThreads = kWarps * kWarpSize, kQueries = kWarps * kBlocks * 16;
  static constexpr int kKeyTile = kTileElements<kWidth, kKeys>;
  static constexpr size_t kSharedBytes = sizeof(bfloat16) * (kTileElements<kWidth, kQueries> + 4 * kKeyTile);
};

/// The running maximum of the scores and sum of the weights of this lane's rows; the sum is of this lane's columns only.
template <int kBlocks>
struct OnlineSoftmax {
  float maximum[kBlocks][2], sum[kBlocks][2];
};

/// Combines a value over the four lanes that hold one row of a product.
template <class Combine>
__device__ float over_quad(float value, Combine combine) {
  value = combine(value, __shfl_xor_sync(kWholeWarp, value, 1));
  return combine(value, __shfl_xor_sync(kWholeWarp, value, 2));
}

/// Replaces by -infinity the scores, queries x keys, of keys that the row's query does not see.
template <int kBlocks, int kTiles, bool kHasLengths>
__device__ void hide_keys(const Extent<kHasLengths>& extent, int first_query, int first_key, Fragments<kBlocks, kTiles>& scores) {
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int seen = extent.seen(first_query + r * 16 + row_in_block(e)) - first_key;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
        if (t * 8 + column_in_tile(e) >= seen) scores[r][t][e] = -INFINITY;
    }
}

/// Brings sums and outputs of earlier tiles to the maximum that the scores of another tile raise them to. Most tiles raise none: then the
/// warp goes on without touching the outputs, which gives the same bits as factors of one.
template <int kBlocks, int kTiles, int kOutTiles>
__device__ void raise_maximum(float factor, const Fragments<kBlocks, kTiles>& scores, OnlineSoftmax<kBlocks>& rows,
                              Fragments<kBlocks, kOutTiles>& out) {
  float largest[kBlocks][2];
  bool is_raised = false;
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float x = rows.maximum[r][half];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) x = fmaxf(x, fmaxf(scores[r][t][2 * half], scores[r][t][2 * half + 1]));
      largest[r][half] = over_quad(x, [](float a, float b) { return fmaxf(a, b); });
      is_raised |= largest[r][half] > rows.maximum[r][half];
    }
  if (!__any_sync(kWholeWarp, is_raised)) return;
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float shrink = fast_exp2((rows.maximum[r][half] - largest[r][half]) * factor);
      rows.maximum[r][half] = largest[r][half];
      rows.sum[r][half] *= shrink;
#pragma unroll
      for (int t = 0; t < kOutTiles; ++t)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) out[r][t][e] *= shrink;
    }
}

/// Turns scores into weights 2^(factor (score - maximum)), and adds them to the sums.
template <int kBlocks, int kTiles>
__device__ void take_scores(float factor, Fragments<kBlocks, kTiles>& scores, OnlineSoftmax<kBlocks>& rows) {
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float offset = rows.maximum[r][half] * factor;
      float sum = 0;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) sum += scores[r][t][e] = fast_exp2(scores[r][t][e] * factor - offset);
      rows.sum[r][half] += sum;
    }
}

/// Divides the outputs by the sums of weights and writes log_sum_exp of the rows from `first`.
template <int kBlocks, int kOutTiles>
__device__ void finish_rows(float scale, const OnlineSoftmax<kBlocks>& state, int first, int rows, Fragments<kBlocks, kOutTiles>& out,
                            float* log_sum_exp) {
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = over_quad(state.sum[r][half], [](float a, float b) { return a + b; }), factor = 1 / sum;
#pragma unroll
      for (int t = 0; t < kOutTiles; ++t)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) out[r][t][e] *= factor;
      const int row = first + r * 16 + row_in_block(2 * half);
      if (lane_of_warp() % 4 == 0 && row < rows) log_sum_exp[row] = state.maximum[r][half] * scale + logf(sum);
    }
}

/// y and log_sum_exp of a tile of queries. The last tiles, which see the most keys when causal, come first. Calls without lengths have
/// kernels of their own, whose registers hold no more than they need.
template <int kWidth, bool kHasLengths, class Shape = ForwardShape<kWidth>>
__global__ void __launch_bounds__(Shape::kThreads, 2)
    attend_mma(Extent<kHasLengths> extent, float scale, Heads<bfloat16> q, Heads<bfloat16> k, Heads<bfloat16> v, Heads<bfloat16> y,
               float* log_sum_exp) {
  constexpr int kBlocks = Shape::kBlocks, kKeys = Shape::kKeys, kThreads = Shape::kThreads, kKeyTile = Shape::kKeyTile;
  const float factor = scale * std::numbers::log2e_v<float>;
  const int tiles = tiles_of(extent.queries, Shape::kQueries);
  const BlockPlace at(tiles, extent.heads);
  const int first = (tiles - 1 - at.tile) * Shape::kQueries, key_head = at.head / extent.group();
  if constexpr (kHasLengths) {
    extent.keep_sample(at.sample);
    if (clear_padding(y, at.sample, at.head, first, Shape::kQueries, extent.queries, extent.padded_queries(), 0, extent.width)) return;
  }
  const int first_of_warp = first + static_cast<int>(threadIdx.x) / kWarpSize * kBlocks * 16;
  const HeadRows<bfloat16> keys = k.rows(at.sample, key_head), values = v.rows(at.sample, key_head);
  bfloat16 *const query_tile = dynamic_shared<bfloat16>(), *const key_tiles = query_tile + kTileElements<kWidth, Shape::kQueries>;
  bfloat16* const queries = query_tile + (first_of_warp - first) * kRowStride<kWidth>;
  const auto load_keys = [&](int first_key, bfloat16* tile) {
    load_tile<kWidth, kKeys, kThreads>(keys, first_key, extent.keys, extent.width, tile);
    load_tile<kWidth, kKeys, kThreads>(values, first_key, extent.keys, extent.width, tile + kKeyTile);
    commit_copies();
  };

  // What only the end needs waits in shared memory: registers are full.
  __shared__ HeadRows<bfloat16> to;
  __shared__ int64_t first_row;
  if (threadIdx.x == 0) to = y.rows(at.sample, at.head), first_row = extent.row_of(at.sample, at.head);
  load_tile<kWidth, Shape::kQueries, kThreads>(q.rows(at.sample, at.head), first, extent.queries, extent.width, query_tile);
  load_keys(0, key_tiles);
  OnlineSoftmax<kBlocks> softmax;
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) softmax.maximum[r][half] = -INFINITY, softmax.sum[r][half] = 0;
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
    Fragments<kBlocks, kKeys / 8> scores;
    dot_rows<kWidth, kBlocks, kKeys / 8>(queries, tile, scores);
    if (first_key + kKeys > visible_to_all) hide_keys<kBlocks, kKeys / 8>(extent, first_of_warp, first_key, scores);
    raise_maximum<kBlocks, kKeys / 8, kWidth / 8>(factor, scores, softmax, out);
    take_scores<kBlocks, kKeys / 8>(factor, scores, softmax);
    add_product<kWidth, kBlocks, kKeys / 8>(scores, tile + kKeyTile, out);
  }
  __syncthreads();  // also where no key is seen, `to` and `first_row` are there
  finish_rows<kBlocks, kWidth / 8>(scale, softmax, first_of_warp, extent.queries, out, log_sum_exp + first_row);
  store_rows<kWidth, kBlocks>(out, queries, to, first_of_warp, extent.queries, extent.width);
}

}  // namespace sluice::kernels
