#include "core/cpu/amx_panels.h"

#include <array>
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
typedef float Floats __attribute__((vector_size(64)));

/// to = the first `count` elements from there on, as many as a vector has at most, and zeros.
template <class T, class Vector>
[[gnu::always_inline]] inline void load(const T* from, int64_t count, Vector& to) {
  to = Vector{};
  if (count >= static_cast<int64_t>(sizeof to / sizeof *from))
    std::memcpy(&to, from, sizeof to);
  else if (count > 0)
    std::memcpy(&to, from, static_cast<size_t>(count) * sizeof *from);
}

/// upper = x rounded to bf16, halves away from zero, in the upper halves of words; x = what is left of it. Of a number beyond those of bf16 no
/// number is left.
[[gnu::always_inline]] inline void split(Floats& x, Words& upper) {
  upper = ((Words)x + 0x8000u) & 0xffff0000u;
  x -= (Floats)upper;
}

/// Asks for where the next step of the depth is stored: after other kernels panels come from the third-level cache.
template <class T>
[[gnu::always_inline]] inline void store_row(const Words& row, int64_t i, bfloat16* tile) {
  __builtin_prefetch(tile + i * kTileDepth + kPanelStep<T>, 1);
  std::memcpy(static_cast<void*>(tile + i * kTileDepth), &row, sizeof row);
}
/// Row i of a tile of each part: words of a number's part of `low` and one of `high`.
[[gnu::always_inline]] inline void store_parts(Floats low, Floats high, int64_t i, bfloat16* tiles) {
#pragma GCC unroll 3
  for (int64_t part = 0; part < kParts<float>; ++part) {
    Words lower = (Words)low, upper = (Words)high & 0xffff0000u;  // of the last part: nothing is left of a number
    if (part + 1 < kParts<float>) split(low, lower), split(high, upper);
    store_row<float>(lower >> 16 | upper, i, tiles + part * kPartStep);
  }
}

/// The runs of the next panel, or of the next step of the depth, which are read after these.
constexpr int64_t kRunsAhead = kPanel;
static_assert(kPanel == kTileDepth);

/// One tile. Its words hold neighbours: of a run, or of two runs.
template <bool are_along, bool turns>
void pack_tile(const Runs<bfloat16>& x, const Range& range, const Range& depth, bfloat16* to) {
  constexpr int64_t kRuns = are_along ? kTile : kTileDepth, kElements = are_along ? kTileDepth : kTile;
  const Range &runs = are_along ? range : depth, &elements = are_along ? depth : range;
  Words rows[kTile];
  const auto fill = [&](int64_t run_count, int64_t element_count) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i) {
      Words row{};
      if constexpr (are_along) {
        x.ask_for(runs.first + i + kRunsAhead, elements.first);
        if (i < run_count) load(x.at(runs.first + i) + elements.first, element_count, row);
      } else {
        Halves low{}, high{};
        x.ask_for(runs.first + 2 * i + kRunsAhead, elements.first);
        x.ask_for(runs.first + 2 * i + 1 + kRunsAhead, elements.first);
        if (2 * i < run_count) load(x.at(runs.first + 2 * i) + elements.first, element_count, low);
        if (2 * i + 1 < run_count) load(x.at(runs.first + 2 * i + 1) + elements.first, element_count, high);
        row = __builtin_convertvector(low, Words) | __builtin_convertvector(high, Words) << 16;
      }
      if constexpr (turns)
        rows[i] = row;
      else
        store_row<bfloat16>(row, i, to);
    }
  };
  if (runs.count >= kRuns && elements.count >= kElements)
    fill(kRuns, kElements);  // constant sizes: vector moves
  else
    fill(runs.count, elements.count);
  if constexpr (turns) {
    transpose_registers(rows);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTile; ++i) store_row<bfloat16>(rows[i], i, to);
  }
}

/// One tile of each part, which are a part's step apart. A word holds a number of the first half of the depth and one of the second, so that no
/// register is shuffled for it, and numbers in f32 are turned before each is three.
template <bool are_along, bool turns>
void pack_tile(const Runs<float>& x, const Range& range, const Range& depth, bfloat16* to) {
  const Range low = depth.part(0, kTile), high = depth.part(kTile, kTile);
  // Run i, across the depth or along `half` of it.
  const auto load_run = [&](const Range& half, int64_t half_count, int64_t count, int64_t i, Floats& row) __attribute__((always_inline)) {
    const Range &runs = are_along ? range : half, &elements = are_along ? half : range;
    row = Floats{};
    x.ask_for(runs.first + i + kRunsAhead, elements.first);
    if (i < (are_along ? count : half_count)) load(x.at(runs.first + i) + elements.first, are_along ? half_count : count, row);
  };
  const auto fill = [&](int64_t count, int64_t low_count, int64_t high_count) __attribute__((always_inline)) {
    if constexpr (turns) {
      Floats low_rows[kTile], high_rows[kTile];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kTile; ++i) load_run(low, low_count, count, i, low_rows[i]);
      transpose_registers(low_rows);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kTile; ++i) load_run(high, high_count, count, i, high_rows[i]);
      transpose_registers(high_rows);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kTile; ++i) store_parts(low_rows[i], high_rows[i], i, to);
    } else {
#pragma GCC unroll 16
      for (int64_t i = 0; i < kTile; ++i) {
        Floats low_row, high_row;
        load_run(low, low_count, count, i, low_row);
        load_run(high, high_count, count, i, high_row);
        store_parts(low_row, high_row, i, to);
      }
    }
  };
  if (range.count >= kTile && depth.count >= kTileDepth)
    fill(kTile, kTile, kTile);  // constant sizes: vector moves
  else
    fill(range.count, low.count, high.count);
}

struct PartProduct {
  int64_t of_a, of_b;
};
/// The products of parts that are summed, in their order: each has a factor of the one before, and the largest is the last.
template <class T>
constexpr std::array<PartProduct, 1> kProducts{{{0, 0}}};
template <>
constexpr std::array<PartProduct, 6> kProducts<float>{{{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}};

/// The sums of a tile's product are those of the first of each pair, and of the second, added to what was there.
template <class T>
void multiply_by_loops(int64_t steps, const bfloat16* a, const bfloat16* b, const float* from, int64_t from_step, float* to,
                       int64_t to_step, int64_t height, int64_t width) {
  for (int64_t i = 0; i < std::min(height, kPanel); ++i)
    for (int64_t j = 0; j < std::min(width, kPanel); j += kTile) {
      const bfloat16 *row = a + i / kTile * kTileElements + i % kTile * kTileDepth, *columns = b + j / kTile * kTileElements;
      Floats sum{};
      if (from) std::memcpy(&sum, from + i * from_step + j, sizeof sum);
      for (int64_t step = 0; step < steps; ++step)
        for (const auto& [of_a, of_b] : kProducts<T>) {
          const bfloat16 *left = row + step * kPanelStep<T> + of_a * kPartStep, *right = columns + step * kPanelStep<T> + of_b * kPartStep;
          Floats firsts{}, seconds{};
          for (int64_t k = 0; k < kTileDepth; k += 2) {
            Words pairs;
            std::memcpy(&pairs, right + k * kTile, sizeof pairs);
            const Words low = pairs << 16, high = pairs & 0xffff0000u;
            firsts += static_cast<float>(left[k]) * (Floats)low;
            seconds += static_cast<float>(left[k + 1]) * (Floats)high;
          }
          sum += firsts + seconds;
        }
      std::memcpy(to + i * to_step + j, &sum, sizeof sum);
    }
}

#if defined(__x86_64__)
/// Adds one product of parts to the sums in tiles 0 to 3. Tiles 4 and 5 are of a, 6 and 7 of b; null for what they hold.
template <bool tall, bool wide>
[[gnu::always_inline, gnu::target("amx-tile,amx-bf16")]] inline void add_product(const bfloat16* a, const bfloat16* b) {
  constexpr int64_t kRowBytes = kTileDepth * sizeof(bfloat16);
  if (a) _tile_loadd(4, a, kRowBytes);
  if (b) _tile_loadd(6, b, kRowBytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (wide) {
    if (b) _tile_loadd(7, b + kTileElements, kRowBytes);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (tall) {
    if (a) _tile_loadd(5, a + kTileElements, kRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (wide) _tile_dpbf16ps(3, 5, 7);
  }
}

/// As multiply_by_loops. A panel's second tiles count where it is `tall` or `wide`.
/// Numbers, not a struct of them: it would be read in other pieces than it is written, and wait until all sums before are in the cache.
template <class T, bool tall, bool wide>
__attribute__((target("amx-tile,amx-bf16"), noinline)) void multiply_tiles(int64_t steps, const bfloat16* a, const bfloat16* b,
                                                                           const float* from, int64_t from_step, float* to,
                                                                           int64_t to_step) {
  asm volatile("" ::: "memory");  // the instructions do not tell the compiler that they read memory
  constexpr int64_t kFloatBytes = sizeof(float);
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
  for (int64_t step = 0; step < steps; ++step, a += kPanelStep<T>, b += kPanelStep<T>)
#pragma GCC unroll 6
    for (size_t i = 0; i < kProducts<T>.size(); ++i) {
      const auto [of_a, of_b] = kProducts<T>[i];
      const bool takes_a = i == 0 || of_a != kProducts<T>[i - 1].of_a, takes_b = i == 0 || of_b != kProducts<T>[i - 1].of_b;
      add_product<tall, wide>(takes_a ? a + of_a * kPartStep : nullptr, takes_b ? b + of_b * kPartStep : nullptr);
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

template <bool are_along, bool is_of_a, class T>
void pack(const Runs<T>& x, const Range& range, const Range& depth, bfloat16* to) {
  const int64_t steps = steps_of(depth.count), panels = rounded_up(range.count, kPanel) / kPanel;
  const auto pack_step = [&](int64_t panel, int64_t step) {
    for (int64_t half = 0; half < 2 && panel * kPanel + half * kTile < range.count; ++half)
      pack_tile<are_along, are_along != is_of_a>(x, range.part(panel * kPanel + half * kTile, kTile),
                                                 depth.part(step * kTileDepth, kTileDepth),
                                                 to + (panel * steps + step) * kPanelStep<T> + half * kTileElements);
  };
  // Runs are read along.
  if constexpr (are_along)
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t step = 0; step < steps; ++step) pack_step(panel, step);
  else
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t panel = 0; panel < panels; ++panel) pack_step(panel, step);
}

template <class T>
void multiply_panels(int64_t steps, const bfloat16* a, const bfloat16* b, const float* from, int64_t from_step, float* to, int64_t to_step,
                     int64_t height, int64_t width) {
#if defined(__x86_64__)
  const bool tall = height > kTile, wide = width > kTile;
  if (has_amx() && tall && wide) return multiply_tiles<T, true, true>(steps, a, b, from, from_step, to, to_step);
  if (has_amx() && tall) return multiply_tiles<T, true, false>(steps, a, b, from, from_step, to, to_step);
  if (has_amx() && wide) return multiply_tiles<T, false, true>(steps, a, b, from, from_step, to, to_step);
  if (has_amx()) return multiply_tiles<T, false, false>(steps, a, b, from, from_step, to, to_step);
#endif
  multiply_by_loops<T>(steps, a, b, from, from_step, to, to_step, height, width);
}

#define SLUICE_INSTANTIATE(T)                                                              \
  template void pack<false, false>(const Runs<T>&, const Range&, const Range&, bfloat16*); \
  template void pack<false, true>(const Runs<T>&, const Range&, const Range&, bfloat16*);  \
  template void pack<true, false>(const Runs<T>&, const Range&, const Range&, bfloat16*);  \
  template void pack<true, true>(const Runs<T>&, const Range&, const Range&, bfloat16*);   \
  template void multiply_panels<T>(int64_t, const bfloat16*, const bfloat16*, const float*, int64_t, float*, int64_t, int64_t, int64_t);
SLUICE_INSTANTIATE(bfloat16)
SLUICE_INSTANTIATE(float)
#undef SLUICE_INSTANTIATE

void round_rows(const float* from, int64_t from_step, int64_t rows, int64_t columns, bfloat16* to, int64_t to_step) {
  int64_t first = 0;
#if defined(__x86_64__)
  if (has_amx()) first = round_whole(from, from_step, rows, columns, to, to_step);
#endif
  if (first == columns) return;
  for (int64_t row = 0; row < rows; ++row) round_floats(from + row * from_step + first, columns - first, to + row * to_step + first);
}

}  // namespace sluice::amx
