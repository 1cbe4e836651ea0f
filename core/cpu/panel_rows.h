#pragma once
#include <algorithm>
#include <cstdint>

#include "core/dtype.h"
#include "core/ops/lanes.h"

/// What products by panels share, whichever instructions multiply these.
namespace sluice {

/// The least multiple of `to` that is no less than x >= 0.
constexpr int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/// Of what rows a product is: of those of a and c or, where a is transposed and b is not, of those of a and b, over which it sums.
/// The product's m, or its k, is their number; other rows of a and b are not read, and those of c stay as they are.
struct ListedRows {
  const int32_t* numbers = nullptr;  ///< ascending; null for all rows
  int64_t at(int64_t i) const { return numbers ? numbers[i] : i; }
  /// How many of `most` rows from the i-th on follow each other.
  int64_t together(int64_t i, int64_t most) const {
    if (!numbers || numbers[i + most - 1] == numbers[i] + most - 1) return most;
    int64_t count = 1;
    while (numbers[i + count] == numbers[i] + count) ++count;
    return count;
  }
};

/// A matrix whose runs (rows, or columns of a transposed one) are contiguous, `step` elements apart. Which run comes as the i-th is up to
/// the list.
template <class T>
struct Runs {
  const T* data;
  int64_t step;
  ListedRows list{};
  const T* at(int64_t i) const { return data + list.at(i) * step; }
  /// Asks for an element of a run that is soon read, and may lie past the last; of all runs alone.
  void ask_for(int64_t i, int64_t element) const {
    if (!list.numbers) __builtin_prefetch(data + i * step + element, 0, 2);
  }
};

inline void copy_floats(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
inline void copy_floats(const bfloat16* from, int64_t count, float* to) {
  using V = kernels::Lanes<float>;
  int64_t i = 0;
  for (; i + V::kCount <= count; i += V::kCount) V::load(from + i).store(to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
/// to += from, rounded once.
template <class Sum, class C>
void add_row(const Sum* from, int64_t count, C* to) {
  kernels::for_lanes<C>(0, count, [&](auto load, auto store) { store(to, load(to) + load(from)); });
}
/// Asks for numbers that are soon added to.
template <class C>
void ask_for_row(const C* to, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(C);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(to + i, 1);
}
inline void round_floats(const float* from, int64_t count, bfloat16* to) {
  using V = kernels::Lanes<float>;
  int64_t i = 0;
  for (; i + V::kCount <= count; i += V::kCount) V::load(from + i).store(to + i);
  for (; i < count; ++i) to[i] = static_cast<bfloat16>(from[i]);
}

}  // namespace sluice
