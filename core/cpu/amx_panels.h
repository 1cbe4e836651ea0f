#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/cpu/panel_rows.h"
#include "core/dtype.h"

/// Panels of matrices as the tiles of AMX read them, and products of two panels (Intel 64 and IA-32 Architectures Optimization Reference
/// Manual, "Intel AMX"). Where has_amx() is false plain loops do what the tiles do, to check by.
///
/// A number in f32 is the sum of three in bf16, which hold its 24 bits: the number rounded, the rest rounded, and the rest of that. Of the nine
/// products of two numbers six are summed; the others are 2^-22 of theirs at most, and less than what rounding of sums in f32 leaves (Henry, Tang
/// and Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, 2019, arXiv 1904.06376).
namespace sluice::amx {

// A tile has 16 rows of 16 words. A word of a is a pair of neighbours in a row of op(a), one of b a pair in a column of op(b), one of c a sum.
constexpr int64_t kTile = 16, kTileDepth = 2 * kTile, kTileElements = kTile * kTileDepth;
/// Numbers in bf16 that one of T is the sum of.
template <class T>
constexpr int64_t kParts = std::is_same_v<T, float> ? 3 : 1;
/// Rows of op(a), or columns of op(b), in a panel: four of the eight tiles hold sums, two of a and two of b are multiplied with each other.
constexpr int64_t kPanel = 2 * kTile;
/// Elements of one part of a panel, and of all, from one step of the depth to the next.
constexpr int64_t kPartStep = 2 * kTileElements;
template <class T>
constexpr int64_t kPanelStep = kParts<T>* kPartStep;

constexpr int64_t steps_of(int64_t depth) { return rounded_up(depth, kTileDepth) / kTileDepth; }
/// Elements of all panels of `count` rows or columns and one depth.
template <class T>
constexpr int64_t panel_elements(int64_t count, int64_t depth) {
  return kParts<T> * rounded_up(count, kPanel) * rounded_up(depth, kTileDepth);
}

struct Range {
  /// Of what lies `from` behind the first, `most` elements at most.
  Range part(int64_t from, int64_t most) const { return {first + from, std::min(most, count - from)}; }
  int64_t end() const { return first + count; }
  int64_t first, count;
};

/// Panels of some rows of op(a) or columns of op(b), and some depth: to [panel][depth / 32][part][2] tiles, where what is missing is zero.
/// Of a panel with 16 rows or columns or fewer the second tiles are left out. Runs lie along the depth or across it.
template <bool are_along, bool is_of_a, class T>
void pack(const Runs<T>& x, const Range& range, const Range& depth, bfloat16* to);

/// to [height, width] = from + one panel of a times one of b, both of T and of `steps` tiles, or without `from` where it is null. Their steps are
/// floats between rows. Of height and width only what exceeds 16, and is not all of 32, matters: whole tiles are read and written.
/// Needs   AmxTiles of the calling thread where has_amx(). Threads  any.
template <class T>
void multiply_panels(int64_t steps, const bfloat16* a, const bfloat16* b, const float* from, int64_t from_step, float* to, int64_t to_step,
                     int64_t height, int64_t width);

/// to [rows, columns] = floats, rounded as bfloat16(float) does, but for numbers below the least normal one, which may become zero. The steps
/// are elements between rows.
void round_rows(const float* from, int64_t from_step, int64_t rows, int64_t columns, bfloat16* to, int64_t to_step);

}  // namespace sluice::amx
