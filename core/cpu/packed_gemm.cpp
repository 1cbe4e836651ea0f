#include "core/cpu/packed_gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "core/cpu/panel_rows.h"
#include "core/cpu/transpose_registers.h"
#include "core/ops/tile_product.h"

namespace sluice {

namespace {

using kernels::Lanes;
using V = Lanes<float>;

constexpr int64_t kLanes = V::kCount;
constexpr bool kIsWide = kLanes == 16;
// A tile of c takes as many registers as are left beside a row of b and one of a. Its rows are few, so that those of a can be read where they
// lie: more addresses than six do not fit into registers.
constexpr int64_t kTileRows = kLanes < 8 ? 4 : 6, kTileRegisters = kIsWide ? 4 : 2, kTileColumns = kTileRegisters * kLanes;
// Rows of a for one tile lie in the first-level cache, a block of them and a panel of b in the second, and b's panels in the third. A wide tile
// is the deeper one, as it is read and written once for each block of depth.
constexpr int64_t kDepth = kIsWide ? 512 : 384, kBlockRows = (kIsWide ? 28 : 24) * kTileRows, kBlockColumns = kIsWide ? 512 : 1536;
// Rows that are read where they lie need no panels that are read often: fewer of them leave more of the cache to b's panels and to c.
constexpr int64_t kBlockRowsInPlace = 8 * kTileRows;
// Of a result that does not hold the sums, f32 ones of so many rows lie beside it, while its depth does not fit into one block.
constexpr int64_t kSummedRows = (kIsWide ? 6 : 7) * kBlockRows;
static_assert(kTileRows <= kLanes && kBlockColumns % kTileColumns == 0);

/// The numbers where they lie, or what they are in f32.
const float* as_floats(const float* from, int64_t, float*) { return from; }
const float* as_floats(const bfloat16* from, int64_t count, float* room) {
  copy_floats(from, count, room);
  return room;
}

typedef float Floats __attribute__((vector_size(4 * kLanes)));

/// Turns `count` elements of each of at most kLanes runs, from `first` on, into `count` rows of kLanes elements that are `width` apart: each
/// row overwrites what is beyond `width` of the row before. Missing runs are zeros.
template <class T>
void turn(const Runs<T>& runs, int64_t run, int64_t run_count, int64_t first, int64_t count, int64_t width, float* to) {
  Floats block[kLanes];
  const auto load = [&](int64_t i) { block[i] = std::bit_cast<Floats>(V::load(runs.at(run + i) + first).all); };
  if (count == kLanes && run_count >= kLanes) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i) load(i);
  } else {
    std::fill_n(block, kLanes, Floats{});
    for (int64_t i = 0; i < std::min(run_count, kLanes); ++i) {
      if (count == kLanes)  // a copy of a size that is not known takes a multiple of the time
        load(i);
      else
        copy_floats(runs.at(run + i) + first, count, reinterpret_cast<float*>(&block[i]));
    }
  }
  transpose_registers(block);
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * width, &block[i], sizeof(Floats));
}

/// Panels of Width runs side by side, from runs that go along the depth: panel [depth][Width].
template <int64_t Width, class T>
void pack_across(const Runs<T>& runs, int64_t first, int64_t count, int64_t first_depth, int64_t depth, float* to) {
  for (int64_t panel = 0; panel < count; panel += Width, to += depth * Width)
    for (int64_t d = 0; d < depth; d += kLanes)
      for (int64_t i = 0; i < Width; i += kLanes)
        turn(runs, first + panel + i, std::min(kLanes, count - panel - i), first_depth + d, std::min(kLanes, depth - d), Width,
             to + d * Width + i);
}

/// The same panels from runs that lie across the depth, of which each is read once. Some runs at a time, so that cache lines of a narrow
/// panel are whole before the next panel begins: panels lie a multiple of what a way of the cache holds apart.
template <int64_t Width, class T>
void pack_along(const Runs<T>& runs, int64_t first, int64_t count, int64_t first_depth, int64_t depth, float* to) {
  constexpr bool kIsNarrow = Width == kTileRows;  // of rows of a
  constexpr int64_t kRuns = kIsNarrow ? 16 : 1;
  constexpr int64_t kCopied = kIsNarrow && Width < 8 ? 8 : Width;  // what one register holds: the next row overwrites the rest
  float room[kRuns][kIsNarrow ? kBlockRows : kBlockColumns];
  const float* from[kRuns];
  for (int64_t d = 0; d < depth; d += kRuns) {
    const int64_t height = std::min(kRuns, depth - d);
    for (int64_t i = 0; i < height; ++i) from[i] = as_floats(runs.at(first_depth + d + i) + first, count, room[i]);
    float* row = to + d * Width;
    int64_t panel = 0;
    if (d + height < depth)
      for (; panel + kCopied <= count; panel += Width, row += depth * Width)
        for (int64_t i = 0; i < height; ++i) std::memcpy(row + i * Width, from[i] + panel, kCopied * sizeof(float));
    for (; panel + Width <= count; panel += Width, row += depth * Width)
      for (int64_t i = 0; i < height; ++i) std::memcpy(row + i * Width, from[i] + panel, Width * sizeof(float));
    for (int64_t i = 0; panel < count && i < height; ++i)
      std::fill_n(std::copy_n(from[i] + panel, count - panel, row + i * Width), Width - (count - panel), 0.0f);
  }
}

/// Whether the rows of a tile follow each other.
bool are_together(const ListedRows& rows, int64_t first) { return rows.together(first, kTileRows) == kTileRows; }

/// A tile of c: where its rows are, and how many rows and columns of it there are.
template <class C>
struct Tile {
  C* row(int64_t i) const { return c + rows.at(first_row + i) * step; }
  /// Whether registers can store it as it lies.
  bool is_whole() const { return height == kTileRows && width % kLanes == 0 && are_together(rows, first_row); }
  C* c;
  int64_t step;
  ListedRows rows;
  int64_t first_row, height, width;
};

/// kTileRows rows of a: a panel, or where they lie, with elements of a row side by side.
using RowsOfTile = kernels::Elements<float>;

/// What the next tile will read and write, where that is not in panels. With all of it in the cache tiles run at the speed of the arithmetic;
/// what a product loses is waiting for memory (docs/performance.md).
struct AheadOfTile {
  kernels::Ahead<float, true> c;
  kernels::Ahead<float, false> a;
};

/// As many registers across as hold the columns.
template <int Registers = kTileRegisters>
void multiply_panels(int64_t columns, int64_t depth, const RowsOfTile& a, const float* b, bool adds, float* c, int64_t step,
                     const AheadOfTile& ahead) {
  if constexpr (Registers > 1)
    if (columns <= (Registers - 1) * kLanes) return multiply_panels<Registers - 1>(columns, depth, a, b, adds, c, step, ahead);
  const kernels::PaddedRows<const float> panel{b, kTileColumns};
  if (a.by_row == 1)
    kernels::tiles::multiply<float, kTileRows, Registers>(depth, {a.data, 1, kTileRows}, panel, adds, {c, step}, ahead.c, ahead.a);
  else
    kernels::tiles::multiply<float, kTileRows, Registers>(depth, {a.data, a.by_row, 1}, panel, adds, {c, step}, ahead.c, ahead.a);
}

/// Where the chains of a tile's elements begin and end within a depth.
template <class C>
struct Chains {
  const C* bias;           ///< of the tile's columns; null for none
  bool adds;               ///< to c
  bool is_first, is_last;  ///< of the depths
  float* sums;             ///< of the depths before and after, where c does not hold them: the tile's first
  int64_t step;            ///< between rows of those
};

/// One tile's product. Its chains begin with zeros, the bias, or what is there.
void multiply_tile(int64_t depth, const RowsOfTile& a, const float* b, const Chains<float>& chains, const Tile<float>& tile,
                   const AheadOfTile& ahead) {
  const bool has_bias = chains.is_first && chains.bias, begins_with_c = !chains.is_first || chains.adds || has_bias;
  if (has_bias)
    for (int64_t i = 0; i < tile.height; ++i) std::copy_n(chains.bias, tile.width, tile.row(i));
  if (tile.is_whole()) return multiply_panels(tile.width, depth, a, b, begins_with_c, tile.row(0), tile.step, ahead);
  alignas(64) float sums[kTileRows * kTileColumns] = {};
  if (begins_with_c)
    for (int64_t i = 0; i < tile.height; ++i) std::copy_n(tile.row(i), tile.width, sums + i * kTileColumns);
  multiply_panels(tile.width, depth, a, b, begins_with_c, sums, kTileColumns, ahead);
  for (int64_t i = 0; i < tile.height; ++i) std::copy_n(sums + i * kTileColumns, tile.width, tile.row(i));
}
void multiply_tile(int64_t depth, const RowsOfTile& a, const float* b, const Chains<bfloat16>& chains, const Tile<bfloat16>& tile,
                   const AheadOfTile& ahead) {
  alignas(64) float sums[kTileRows * kTileColumns] = {};
  for (int64_t i = 0; i < tile.height; ++i) {
    float* row = sums + i * kTileColumns;
    if (!chains.is_first)
      std::copy_n(chains.sums + i * chains.step, tile.width, row);
    else if (chains.bias)
      copy_floats(chains.bias, tile.width, row);
    else if (chains.adds)
      copy_floats(tile.row(i), tile.width, row);
  }
  multiply_panels(tile.width, depth, a, b, !chains.is_first || chains.bias || chains.adds, sums, kTileColumns, ahead);
  for (int64_t i = 0; i < tile.height; ++i) {
    const float* row = sums + i * kTileColumns;
    if (chains.is_last)
      round_floats(row, tile.width, tile.row(i));
    else
      std::copy_n(row, tile.width, chains.sums + i * chains.step);
  }
}

/// The rows of a block, by tile.
using Block = std::array<RowsOfTile, kBlockRows / kTileRows>;

/// Those of whole tiles are read where they lie: turning them into panels takes up to a quarter of a product of few columns
/// (docs/performance.md). The others are packed.
Block rows_of_block(bool transposed, const Runs<float>& a, int64_t first, int64_t height, int64_t k, int64_t depth, float* panels) {
  Block block;
  if (transposed) pack_along<kTileRows>(a, first, height, k, depth, panels);
  for (int64_t i = 0; i < height; i += kTileRows) {
    RowsOfTile& tile = block[i / kTileRows] = {panels + i * depth, 1, kTileRows};
    if (transposed) continue;
    if (height - i >= kTileRows && a.step > 1 && are_together(a.list, first + i))
      tile = {a.at(first + i) + k, a.step, 1};
    else
      pack_across<kTileRows>(a, first + i, std::min(kTileRows, height - i), k, depth, panels + i * depth);
  }
  return block;
}

/// Of the tile that follows i in its block, whose columns are those of `next`, the same ones of the next rows: b's first panel is the first to
/// read the rows of a.
template <class C>
AheadOfTile ahead_of(const Tile<C>& next, const RowsOfTile& rows, bool is_first_panel, int64_t depth) {
  AheadOfTile ahead;
  if constexpr (std::is_same_v<C, float>)
    if (next.height == kTileRows && are_together(next.rows, next.first_row))
      ahead.c = {next.row(0), next.step, kTileRows, (next.width + ahead.c.kLine - 1) / ahead.c.kLine};
  if (is_first_panel && rows.by_row != 1) ahead.a = {rows.data, rows.by_row, kTileRows, depth / ahead.a.kLine};
  return ahead;
}

/// Between rows of a block in f32: more than they hold, so that rows of a power of two do not share the few places that the cache has for
/// them.
constexpr int64_t kRowGap = 16;

/// Rows in bf16 are copied as rows.
Block rows_of_block(bool transposed, const Runs<bfloat16>& a, int64_t first, int64_t height, int64_t k, int64_t depth, float* panels) {
  Block block;
  const int64_t step = depth + kRowGap;
  if (transposed) pack_along<kTileRows>(a, first, height, k, depth, panels);
  for (int64_t i = 0; i < rounded_up(height, kTileRows); ++i) {
    if (i % kTileRows == 0)
      block[i / kTileRows] = transposed ? RowsOfTile{panels + i * depth, 1, kTileRows} : RowsOfTile{panels + i * step, step, 1};
    if (transposed) continue;
    if (i < height)
      copy_floats(a.at(first + i) + k, depth, panels + i * step);
    else
      std::fill_n(panels + i * step, depth, 0.0f);
  }
  return block;
}

int64_t a_floats(const onednn::Product& p) {
  const int64_t gap = p.dtype == DType::f32 ? 0 : kRowGap;
  return (std::min(kDepth, p.k) + gap) * std::min(kBlockRows, rounded_up(p.m, kTileRows)) +
         kLanes;  // the last row that is turned goes beyond
}
int64_t b_floats(const onednn::Product& p) { return std::min(kDepth, p.k) * std::min(kBlockColumns, rounded_up(p.n, kTileColumns)); }

/// c holds the sums between the depths, if there are several.
bool holds_sums(const onednn::Product& p) { return p.dtype == DType::f32 || p.f32_result || p.k <= kDepth; }

/// Rows that are taken through all depths before the next.
int64_t rows_at_once(const onednn::Product& p) { return holds_sums(p) ? p.m : std::min(p.m, kSummedRows); }

int64_t sum_floats(const onednn::Product& p) { return holds_sums(p) ? 0 : rows_at_once(p) * std::min(kBlockColumns, p.n); }

}  // namespace

bool packed_gemm_is_fastest() { return kLanes < 16; }

int64_t packed_gemm_scratch(const onednn::Product& p) { return rounded_up(a_floats(p), 16) + rounded_up(b_floats(p), 16) + sum_floats(p); }

template <class T, class C>
void packed_gemm(const onednn::Product& p, const T* a, const T* b, const C* bias, C* c, ListedRows rows, float* scratch) {
  assert(!rows.numbers || !p.transpose_a || !p.transpose_b);
  const ListedRows all, of_m = p.transpose_a ? all : rows, of_k = p.transpose_a ? rows : all;
  const Runs<T> a_runs{a, p.a_ld, rows}, b_runs{b, p.b_ld, p.transpose_b ? all : of_k};
  float *const a_panels = scratch, *const b_panels = a_panels + rounded_up(a_floats(p), 16),
               *const sums = b_panels + rounded_up(b_floats(p), 16);
  const int64_t strip = rows_at_once(p), block_rows = std::is_same_v<T, float> && !p.transpose_a ? kBlockRowsInPlace : kBlockRows;
  for (int64_t column = 0; column < p.n; column += kBlockColumns) {
    const int64_t width = std::min(kBlockColumns, p.n - column);
    for (int64_t first = 0; first < p.m; first += strip)
      for (int64_t k = 0; k < p.k; k += kDepth) {
        const int64_t depth = std::min(kDepth, p.k - k), last = std::min(first + strip, p.m);
        if (p.transpose_b)
          pack_across<kTileColumns>(b_runs, column, width, k, depth, b_panels);
        else
          pack_along<kTileColumns>(b_runs, column, width, k, depth, b_panels);
        for (int64_t row = first; row < last; row += block_rows) {
          const int64_t height = std::min(block_rows, last - row);
          const Block block = rows_of_block(p.transpose_a, a_runs, row, height, k, depth, a_panels);
          for (int64_t j = 0; j < width; j += kTileColumns)
            for (int64_t i = 0; i < height; i += kTileRows) {
              const auto tile_at = [&](int64_t at) {
                return Tile<C>{c + column + j, p.c_ld, of_m, row + at, std::min(kTileRows, height - at), std::min(kTileColumns, width - j)};
              };
              const int64_t next = i + kTileRows;
              multiply_tile(depth, block[i / kTileRows], b_panels + j * depth,
                            Chains<C>{p.has_bias ? bias + column + j : nullptr, p.beta != 0, k == 0, k + depth == p.k,
                                      sums + (row - first + i) * width + j, width},
                            tile_at(i), next < height ? ahead_of(tile_at(next), block[next / kTileRows], j == 0, depth) : AheadOfTile());
            }
        }
      }
  }
}

#define SLUICE_INSTANTIATE(T, C) template void packed_gemm(const onednn::Product&, const T*, const T*, const C*, C*, ListedRows, float*);
SLUICE_INSTANTIATE(float, float)
SLUICE_INSTANTIATE(bfloat16, bfloat16)
SLUICE_INSTANTIATE(bfloat16, float)
#undef SLUICE_INSTANTIATE

}  // namespace sluice
