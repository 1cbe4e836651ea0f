#pragma once
// Tiles of bf16 rows in shared memory and the products that a warp makes of them on tensor cores.
//
// A row of a tile is kWidth elements and 16 bytes more: an odd number of 16-byte chunks, so that the eight rows of one ldmatrix phase lie in
// different banks, and every address is a lane's one offset plus a constant (which a swizzle, the other way to that end, has not).
#include "core/cuda/mma.h"
#include "core/ops/attention_heads_cuda.cuh"

namespace sluice::kernels {

/// Elements from one row of a tile to the next, and of a tile.
template <int kWidth>
constexpr int kRowStride = kWidth + 8;
template <int kWidth, int kRows>
constexpr int kTileElements = kRows* kRowStride<kWidth>;

/// What a warp holds of a product: kBlocks x 16 rows of kTiles x 8 columns, as mma_m16n8k16 lays out its sums.
template <int kBlocks, int kTiles>
using Fragments = float[kBlocks][kTiles][4];

__device__ inline int lane_of_warp() { return threadIdx.x % kWarpSize; }
/// Where in an 8-column tile of a product lies element `e` of this lane: its row within 16 and its column.
__device__ inline int row_in_block(int e) { return lane_of_warp() / 4 + e / 2 * 8; }
__device__ inline int column_in_tile(int e) { return lane_of_warp() % 4 * 2 + e % 2; }

/// This lane's row address for ldmatrix_x4 of a 16 x 16 part: matrices in the order top left, bottom left, top right, bottom right ...
template <int kWidth>
__device__ int rows_first() {
  return lane_of_warp() % 16 * kRowStride<kWidth> + lane_of_warp() / 16 * 8;
}
/// ... or top left, top right, bottom left, bottom right.
template <int kWidth>
__device__ int columns_first() {
  return (lane_of_warp() % 8 + lane_of_warp() / 16 * 8) * kRowStride<kWidth> + lane_of_warp() / 8 % 2 * 8;
}

/// Starts the copy of kRows rows from row `first` to a tile, by all threads of the block, each of which keeps to its column; rows and columns
/// that are not there become zeros.
template <int kWidth, int kRows, int kThreads>
__device__ void load_tile(const HeadRows<bfloat16>& from, int first, int rows, int width, bfloat16* tile) {
  constexpr int kChunks = kWidth / 8, kRowsAtOnce = kThreads / kChunks;
  const int row = threadIdx.x / kChunks, column = threadIdx.x % kChunks * 8;
  if (kThreads % kChunks != 0 && row >= kRowsAtOnce) return;
  const int rows_left = column < width ? rows - first - row : 0;
  const bfloat16* source = from[first + row] + column;
  tile += row * kRowStride<kWidth> + column;
#pragma unroll
  for (int i = 0; i < kRows; i += kRowsAtOnce, source += kRowsAtOnce * from.stride)
    if (i + kRowsAtOnce <= kRows || row < kRows - i) copy_async<16>(tile + i * kRowStride<kWidth>, source, i < rows_left);
}

template <int kBlocks, int kTiles>
__device__ void clear(Fragments<kBlocks, kTiles>& x) {
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) x[r][t][e] = 0;
}

template <int kBlocks, int kTiles>
__device__ void multiply(Fragments<kBlocks, kTiles>& x, float factor) {
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) x[r][t][e] *= factor;
}

/// sums = a b^T over the width, where a [16 kBlocks, kWidth] and b [8 kTiles, kWidth] are rows of tiles.
template <int kWidth, int kBlocks, int kTiles>
__device__ void dot_rows(const bfloat16* a, const bfloat16* b, Fragments<kBlocks, kTiles>& sums) {
  clear<kBlocks, kTiles>(sums);
  a += rows_first<kWidth>();
  b += columns_first<kWidth>();
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    uint32_t rows[kBlocks][4];
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) ldmatrix_x4(rows[r], a + r * 16 * kRowStride<kWidth> + k);
#pragma unroll
    for (int t = 0; t < kTiles; t += 2) {
      uint32_t columns[4];
      ldmatrix_x4(columns, b + t * 8 * kRowStride<kWidth> + k);
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) {
        mma_m16n8k16(sums[r][t], rows[r], columns[0], columns[1]);
        mma_m16n8k16(sums[r][t + 1], rows[r], columns[2], columns[3]);
      }
    }
  }
}

/// sums += a b, where b [8 kInner, kWidth] are rows of a tile. The sums of one product are laid out as the left factor of the next, so
/// that `a`, rounded to bf16, needs no shared memory.
template <int kWidth, int kBlocks, int kInner>
__device__ void add_product(const Fragments<kBlocks, kInner>& a, const bfloat16* b, Fragments<kBlocks, kWidth / 8>& sums) {
  b += rows_first<kWidth>();
#pragma unroll
  for (int k = 0; k < kInner; k += 2) {
    uint32_t rows[kBlocks][4];
#pragma unroll
    for (int r = 0; r < kBlocks; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) rows[r][i] = pack_bf16(a[r][k + i / 2][i % 2 * 2], a[r][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int t = 0; t < kWidth / 8; t += 2) {
      uint32_t columns[4];
      ldmatrix_x4_trans(columns, b + k * 8 * kRowStride<kWidth> + t * 8);
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) {
        mma_m16n8k16(sums[r][t], rows[r], columns[0], columns[1]);
        mma_m16n8k16(sums[r][t + 1], rows[r], columns[2], columns[3]);
      }
    }
  }
}

/// Writes this warp's 16 kBlocks rows to `to` from row `first`, through rows of a tile that no other warp uses: whole 16-byte chunks.
template <int kWidth, int kBlocks>
__device__ void store_rows(const Fragments<kBlocks, kWidth / 8>& x, bfloat16* tile, const HeadRows<bfloat16>& to, int first, int rows,
                           int width) {
  __syncwarp();  // all lanes have read what the rows held before
#pragma unroll
  for (int r = 0; r < kBlocks; ++r)
#pragma unroll
    for (int t = 0; t < kWidth / 8; ++t)
#pragma unroll
      for (int e = 0; e < 4; e += 2)
        *reinterpret_cast<uint32_t*>(tile + (r * 16 + row_in_block(e)) * kRowStride<kWidth> + t * 8 + column_in_tile(e)) =
            pack_bf16(x[r][t][e], x[r][t][e + 1]);
  __syncwarp();
  for (int chunk = lane_of_warp(); chunk < kBlocks * 16 * kWidth / 8; chunk += kWarpSize) {
    const int row = chunk / (kWidth / 8), column = chunk % (kWidth / 8) * 8;
    if (first + row < rows && column < width) store_pack(to[first + row] + column, load_pack(tile + row * kRowStride<kWidth> + column));
  }
}

}  // namespace sluice::kernels
