#pragma once
#include "core/host_device.h"
#include "core/tensor.h"

namespace sluice::kernels {

/// Steps through two operands as the broadcast result runs row by row. Neighbouring axes that both operands cross with one stride are
/// one axis here: equal contiguous shapes become a single row, a trailing vector a matrix.
struct Broadcast {
  Broadcast(const Tensor& a, const Tensor& b, const Shape& shape) {
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (shape[axis] != 1) append(shape[axis], step(a, axis - shape.rank()), step(b, axis - shape.rank()));
    if (rank == 0) append(1, 1, 1);
  }

  /// Elements between neighbours of an operand along an axis of the result (counted from the end): 0 where it is repeated.
  static int64_t step(const Tensor& x, int axis) { return -axis > x.rank() || x.dim(axis) == 1 ? 0 : x.stride(axis); }

  void append(int64_t extent, int64_t a, int64_t b) {
    if (rank > 0 && a_step[rank - 1] == a * extent && b_step[rank - 1] == b * extent) {
      extents[rank - 1] *= extent;
      a_step[rank - 1] = a;
      b_step[rank - 1] = b;
      return;
    }
    extents[rank] = extent;
    a_step[rank] = a;
    b_step[rank] = b;
    ++rank;
  }

  SLUICE_HD int64_t columns() const { return extents[rank - 1]; }

  SLUICE_HD int64_t offset(const int64_t* steps, int64_t row) const {
    int64_t result = 0;
    for (int axis = rank - 2; axis > 0; --axis) {
      result += row % extents[axis] * steps[axis];
      row /= extents[axis];
    }
    return rank > 1 ? result + row * steps[0] : result;
  }

  int rank = 0;
  int64_t extents[kMaxRank], a_step[kMaxRank], b_step[kMaxRank];
};

}  // namespace sluice::kernels
