#pragma once
#include <utility>

namespace sluice {

/// to = the first or second halves of x and y, element by element in turn. By reference, as vectors wider than the build's registers have no
/// agreed way into functions.
template <bool second, class V, int... i>
[[gnu::always_inline]] inline void interleave(const V& x, const V& y, V& to, std::integer_sequence<int, i...>) {
  constexpr int kCount = sizeof...(i);
  to = __builtin_shufflevector(x, y, (i % 2 * kCount + (second ? kCount / 2 : 0) + i / 2)...);
}

/// Turns a square of as many registers as one has elements, a power of two. Each step brings element j of row i one bit nearer to element i of
/// row j.
template <class V, int count>
[[gnu::always_inline]] inline void transpose_registers(V (&rows)[count]) {
  static_assert(sizeof(V) == count * sizeof(rows[0][0]));
  constexpr std::make_integer_sequence<int, count> kAll;
  for (int bit = 1; bit < count; bit *= 2) {
    V next[count];
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; ++i) {
      interleave<false>(rows[i], rows[i + count / 2], next[2 * i], kAll);
      interleave<true>(rows[i], rows[i + count / 2], next[2 * i + 1], kAll);
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) rows[i] = next[i];
  }
}

}  // namespace sluice
