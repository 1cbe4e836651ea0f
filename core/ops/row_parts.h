#pragma once
#include <algorithm>
#include <cstdint>

namespace sluice::kernels {

/// Calls f(row, first column, end of columns) for the parts of rows of `columns` elements that make up [begin, end) of a matrix.
template <class F>
void each_row_part(int64_t begin, int64_t end, int64_t columns, const F& f) {
  for (int64_t at = begin; at < end;) {
    const int64_t column = at % columns, count = std::min(columns - column, end - at);
    f(at / columns, column, column + count);
    at += count;
  }
}

}  // namespace sluice::kernels
