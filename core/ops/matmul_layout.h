#pragma once
#include <algorithm>

#include "core/ops/matmul.h"

namespace sluice::kernels {

/// How the matrices over the last two axes of x lie in memory: the distance between their rows, or between their columns when these are
/// the contiguous runs.
struct MatrixLayout {
  explicit MatrixLayout(const Tensor& x) {
    const int64_t rows = x.dim(-2), columns = x.dim(-1);
    by_columns = !((columns == 1 || x.stride(-1) == 1) && (rows == 1 || x.stride(-2) >= columns));
    const int64_t run = by_columns ? rows : columns, runs = by_columns ? columns : rows;
    ld = runs == 1 ? run : x.stride(by_columns ? -1 : -2);
  }
  bool by_columns;
  int64_t ld;
};

/// Offset in elements of matrix `index` of x; a single matrix serves for all.
inline int64_t matrix_offset(const Tensor& x, int64_t index) {
  int64_t offset = 0;
  for (int axis = x.rank() - 3; axis >= 0; --axis) {
    offset += index % x.dim(axis) * x.stride(axis);
    index /= x.dim(axis);
  }
  return offset;
}

inline int64_t matrices_of(const Tensor& x) { return x.shape().elements_before(-2); }

/// Products that add up to one matrix of c.
inline int64_t terms_of(const MatmulOperands& of) { return of.c.rank() > 2 ? 1 : std::max(matrices_of(of.a), matrices_of(of.b)); }

/// Whether beta 1 gives the bits of a product and an addition afterwards: of one term, and a result in the dtype of the arithmetic.
inline bool adds_as_a_pass(const MatmulOperands& of) { return terms_of(of) == 1 && of.c.dtype() == compute_dtype(of.a.dtype()); }

}  // namespace sluice::kernels
