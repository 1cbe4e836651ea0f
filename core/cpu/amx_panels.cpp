#include "core/cpu/amx_panels.h"

#include <cstring>

#include "core/cpu/amx.h"
#include "core/cpu/transpose_registers.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sluice::amx {

namespace {

typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

/// to = the first `count` elements from there on, as many as a vector has at most, and zeros.
template <class Vector>
[[gnu::always_inline]] inline void load(const bfloat16* from, int64_t count, Vector& to) {
  to = Vector{};
  if (count >= static_cast<int64_t>(sizeof to / sizeof *from))
    std::memcpy(&to, from, sizeof to);
  else
    std::memcpy(&to, from, static_cast<size_t>(count) * sizeof *from);
}

/// to = pairs of elements of two runs; zeros for missing runs.
[[gnu::always_inline]] inline void load_pairs(const Runs& x, const Range& runs, int64_t first, int64_t count, Words& to) {
  Halves low{}, high{};
  if (runs.count > 0) load(x.at(runs.first, first), count, low);
  if (runs.count > 1) load(x.at(runs.first + 1, first), count, high);
  to = __builtin_convertvector(low, Words) | __builtin_convertvector(high, Words) << 16;
}

template <bool are_along, bool turns>
void pack_tile(const Runs& x, const Range& range, const Range& depth, bfloat16* to) {
  constexpr int64_t kRuns = are_along ? kTile : kTileDepth, kElements = are_along ? kTileDepth : kTile;
  const Range &runs = are_along ? range : depth, &elements = are_along ? depth : range;
  Words rows[kTile];
  const auto fill = [&](int64_t run_count, int64_t element_count) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i)
      if constexpr (!are_along)
        load_pairs(x, {runs.first + 2 * i, run_count - 2 * i}, elements.first, element_count, rows[i]);
      else if (i < run_count)
        load(x.at(runs.first + i, elements.first), element_count, rows[i]);
      else
        rows[i] = Words{};
  };
  if (runs.count >= kRuns && elements.count >= kElements)
    fill(kRuns, kElements);  // constant sizes: vector moves
  else
    fill(runs.count, elements.count);
  if constexpr (turns) transpose_registers(rows);
#pragma GCC unroll 16
  for (int64_t i = 0; i < kTile; ++i) std::memcpy(static_cast<void*>(to + i * kTileDepth), &rows[i], sizeof rows[i]);
}

void multiply_by_loops(int64_t steps, const bfloat16* a, const bfloat16* b, const float* from, int64_t from_step, float* to,
                       int64_t to_step, int64_t height, int64_t width) {
  for (int64_t i = 0; i < std::min(height, kPanel); ++i)
    for (int64_t j = 0; j < std::min(width, kPanel); ++j) {
      const bfloat16 *row = a + i / kTile * kTileElements + i % kTile * kTileDepth, *column = b + j / kTile * kTileElements + j % kTile * 2;
      float sum = from ? from[i * from_step + j] : 0;
      for (int64_t step = 0; step < steps; ++step)
        for (int64_t k = 0; k < kTileDepth; ++k)
          sum +=
              static_cast<float>(row[step * kPanelStep + k]) * static_cast<float>(column[step * kPanelStep + k / 2 * kTileDepth + k % 2]);
      to[i * to_step + j] = sum;
    }
}

#if defined(__x86_64__)
/// As multiply_by_loops. Tiles 0 to 3 are sums, 4 and 5 of a, 6 and 7 of b. A panel's second tiles count where it is `tall` or `wide`.
/// Numbers, not a struct of them: it would be read in other pieces than it is written, and wait until all sums before are in the cache.
template <bool tall, bool wide>
__attribute__((target("amx-tile,amx-bf16"), noinline)) void multiply_tiles(int64_t steps, const bfloat16* a, const bfloat16* b,
                                                                           const float* from, int64_t from_step, float* to,
                                                                           int64_t to_step) {
  asm volatile("" ::: "memory");  // the instructions do not tell the compiler that they read memory
  constexpr int64_t kFloatBytes = sizeof(float), kRowBytes = kTile * kFloatBytes;
  if (from) {
    _tile_loadd(0, from, from_step * kFloatBytes);
    if constexpr (wide) _tile_loadd(1, from + kTile, from_step * kFloatBytes);
    if constexpr (tall) _tile_loadd(2, from + kTile * from_step, from_step * kFloatBytes);
    if constexpr (tall && wide) _tile_loadd(3, from + kTile * from_step + kTile, from_step * kFloatBytes);
  } else {
    _tile_zero(0);
    if constexpr (wide) _tile_zero(1);
    if constexpr (tall) _tile_zero(2);
    if constexpr (tall && wide) _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; ++step, a += kPanelStep, b += kPanelStep) {
    _tile_loadd(4, a, kRowBytes);
    _tile_loadd(6, b, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (wide) {
      _tile_loadd(7, b + kTileElements, kRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (tall) {
      _tile_loadd(5, a + kTileElements, kRowBytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (wide) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, to, to_step * kFloatBytes);
  if constexpr (wide) _tile_stored(1, to + kTile, to_step * kFloatBytes);
  if constexpr (tall) _tile_stored(2, to + kTile * to_step, to_step * kFloatBytes);
  if constexpr (tall && wide) _tile_stored(3, to + kTile * to_step + kTile, to_step * kFloatBytes);
}

/// The first columns, as far as whole registers go, by the instruction that every processor with AMX has. Returns how many.
__attribute__((target("avx512f,avx512bf16"))) int64_t round_whole(const float* from, int64_t from_step, int64_t rows, int64_t columns,
                                                                  bfloat16* to, int64_t to_step) {
  const int64_t whole = columns / kTileDepth * kTileDepth;
  for (int64_t row = 0; row < rows; ++row, from += from_step, to += to_step)
    for (int64_t i = 0; i < whole; i += kTileDepth)
      _mm512_storeu_si512(to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + kTile), _mm512_loadu_ps(from + i)));
  return whole;
}
#endif

}  // namespace

template <bool are_along, bool is_of_a>
void pack(const Runs& x, const Range& range, const Range& depth, bfloat16* to) {
  const int64_t steps = steps_of(depth.count), panels = rounded_up(range.count, kPanel) / kPanel;
  const auto pack_step = [&](int64_t panel, int64_t step) {
    for (int64_t half = 0; half < 2 && panel * kPanel + half * kTile < range.count; ++half)
      pack_tile<are_along, are_along != is_of_a>(x, range.part(panel * kPanel + half * kTile, kTile),
                                                 depth.part(step * kTileDepth, kTileDepth),
                                                 to + (panel * steps + step) * kPanelStep + half * kTileElements);
  };
  // Runs are read along.
  if constexpr (are_along)
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t step = 0; step < steps; ++step) pack_step(panel, step);
  else
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t panel = 0; panel < panels; ++panel) pack_step(panel, step);
}
template void pack<false, false>(const Runs&, const Range&, const Range&, bfloat16*);
template void pack<false, true>(const Runs&, const Range&, const Range&, bfloat16*);
template void pack<true, false>(const Runs&, const Range&, const Range&, bfloat16*);
template void pack<true, true>(const Runs&, const Range&, const Range&, bfloat16*);

void multiply_panels(int64_t steps, const bfloat16* a, const bfloat16* b, const float* from, int64_t from_step, float* to, int64_t to_step,
                     int64_t height, int64_t width) {
#if defined(__x86_64__)
  const bool tall = height > kTile, wide = width > kTile;
  if (has_amx() && tall && wide) return multiply_tiles<true, true>(steps, a, b, from, from_step, to, to_step);
  if (has_amx() && tall) return multiply_tiles<true, false>(steps, a, b, from, from_step, to, to_step);
  if (has_amx() && wide) return multiply_tiles<false, true>(steps, a, b, from, from_step, to, to_step);
  if (has_amx()) return multiply_tiles<false, false>(steps, a, b, from, from_step, to, to_step);
#endif
  multiply_by_loops(steps, a, b, from, from_step, to, to_step, height, width);
}

void round_rows(const float* from, int64_t from_step, int64_t rows, int64_t columns, bfloat16* to, int64_t to_step) {
  int64_t first = 0;
#if defined(__x86_64__)
  if (has_amx()) first = round_whole(from, from_step, rows, columns, to, to_step);
#endif
  if (first == columns) return;
  for (int64_t row = 0; row < rows; ++row) round_floats(from + row * from_step + first, columns - first, to + row * to_step + first);
}

}  // namespace sluice::amx
