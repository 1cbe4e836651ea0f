#pragma once
#include "core/ops/lanes.h"

namespace sluice::kernels {

/// A matrix that a product reads element by element: x(i, j) = data[i * by_row + j * by_column].
template <class T>
struct Elements {
  const T* data;
  int64_t by_row, by_column;
};

/// A matrix with contiguous rows, `step` elements apart. They may be read and written up to the next multiple of Lanes<T>::kCount.
template <class T>
struct PaddedRows {
  T* data;
  int64_t step;
};

/// The elements between padded rows of `columns` elements: whole cache lines, an odd number of them, so that rows one above the other do not
/// share the few places that the cache has for them.
constexpr int64_t padded_step(int64_t columns) {
  constexpr int64_t kLine = 16;
  return ((columns + kLine - 1) / kLine | 1) * kLine;
}

/// Rows of cache lines, `step` elements apart, that are asked for while a tile is computed, so that they have come when they are needed; of
/// what will be written, for that.
template <class T, bool kIsWritten>
struct Ahead {
  static constexpr int64_t kLine = 64 / sizeof(T);
  const T* data = nullptr;
  int64_t step = 0, rows = 0, lines = 0;

  void ask(int64_t row, int64_t line) const {
    const T* place = data + row * step + line * kLine;
    if constexpr (kIsWritten)
      __builtin_prefetch(place, 1);
    else
      __builtin_prefetch(place, 0, 2);  // into the second-level cache
  }
};

namespace tiles {

/// Tiles of c are as many registers as hide the latency of multiply-adds, and leave some for b.
template <class T>
constexpr int kRows = sizeof(typename Lanes<T>::Register) == 64 ? 8 : 4;

/// Inlined, so that strides that the caller knows are known. One line of what is ahead is asked for at each step, as long as there are both.
template <class T, int Rows, int Columns, class... Aheads>
[[gnu::always_inline]] inline void multiply(int64_t k, const Elements<T>& a, const PaddedRows<const T>& b, bool adds,
                                            const PaddedRows<T>& c, const Aheads&... ahead) {
  using V = Lanes<T>;
  typename V::Register sums[Rows][Columns];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) sums[i][j] = adds ? V::load(c.data + i * c.step + j * V::kCount).all : V(0).all;
  int64_t step = 0;
  const auto take_step = [&]() __attribute__((always_inline)) {
    typename V::Register row[Columns];
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) row[j] = V::load(b.data + step * b.step + j * V::kCount).all;
    const T* column = a.data + step * a.by_column;
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const auto factor = Eigen::internal::pset1<typename V::Register>(column[i * a.by_row]);
#pragma GCC unroll 4
      for (int j = 0; j < Columns; ++j) sums[i][j] = Eigen::internal::pmadd(factor, row[j], sums[i][j]);
    }
    ++step;
  };
  [[maybe_unused]] const auto ask_for = [&](const auto& lines_ahead) __attribute__((always_inline)) {
    for (int64_t row = 0; row < lines_ahead.rows; ++row)
      for (int64_t line = 0; line < lines_ahead.lines && step < k; ++line) {
        lines_ahead.ask(row, line);
        take_step();
      }
  };
  (ask_for(ahead), ...);
  while (step < k) take_step();
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) V(sums[i][j]).store(c.data + i * c.step + j * V::kCount);
}

/// Rows [first, m) of one column of tiles, as many a time as are left.
template <class T, int Rows, int Columns>
void multiply_column(int64_t first, int64_t m, int64_t k, const Elements<T>& a, const PaddedRows<const T>& b, bool adds,
                     const PaddedRows<T>& c) {
  for (; first + Rows <= m; first += Rows)
    multiply<T, Rows, Columns>(k, {a.data + first * a.by_row, a.by_row, a.by_column}, b, adds, {c.data + first * c.step, c.step});
  if constexpr (Rows > 1)
    if (first < m) multiply_column<T, Rows / 2, Columns>(first, m, k, a, b, adds, c);
}

}  // namespace tiles

/// c [m, n] = a b, or c + a b, of small matrices that are in the cache: nothing is copied, which is what a library's product spends as much
/// time on at these sizes.
/// Shape    a [m, k], b [k, n]; of b and c the columns up to the next multiple of Lanes<T>::kCount are worked on, too.
/// Threads  any. Every element is one sum in the order of k: its bits depend on nothing else.
template <class T>
void multiply_tiles(int64_t m, int64_t n, int64_t k, const Elements<T>& a, const PaddedRows<const T>& b, bool adds,
                    const PaddedRows<T>& c) {
  constexpr int64_t kLanes = Lanes<T>::kCount;
  int64_t column = 0;
  for (; column + kLanes < n; column += 2 * kLanes)
    tiles::multiply_column<T, tiles::kRows<T>, 2>(0, m, k, a, {b.data + column, b.step}, adds, {c.data + column, c.step});
  if (column < n) tiles::multiply_column<T, tiles::kRows<T>, 1>(0, m, k, a, {b.data + column, b.step}, adds, {c.data + column, c.step});
}

}  // namespace sluice::kernels
