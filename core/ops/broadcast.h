#pragma once
#include "core/host_device.h"
#include "core/tensor.h"

namespace sluice::kernels {

/// Steps through operands as the broadcast result runs row by row. Neighbouring axes that all operands cross with one stride are
/// one axis here: equal contiguous shapes become a single row, a trailing vector a matrix.
template <int kOperands>
struct Broadcast {
  template <class... Tensors>
  explicit Broadcast(const Shape& shape, const Tensors&... operands) {
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (shape[axis] != 1) append(shape[axis], {step_of(operands, axis - shape.rank())...});
    if (rank > 0) return;
    std::array<int64_t, kOperands> ones;
    ones.fill(1);
    append(1, ones);
  }

  /// Elements between neighbours of an operand along an axis of the result (counted from the end): 0 where it is repeated.
  static int64_t step_of(const Tensor& x, int axis) { return -axis > x.rank() || x.dim(axis) == 1 ? 0 : x.stride(axis); }

  void append(int64_t extent, const std::array<int64_t, kOperands>& by) {
    bool goes_on = rank > 0;
    for (int k = 0; k < kOperands; ++k) goes_on = goes_on && steps[k][rank - 1] == by[k] * extent;
    if (!goes_on) ++rank;
    extents[rank - 1] = goes_on ? extents[rank - 1] * extent : extent;
    for (int k = 0; k < kOperands; ++k) steps[k][rank - 1] = by[k];
  }

  SLUICE_HD int64_t columns() const { return extents[rank - 1]; }
  /// Between neighbours of an operand in a row.
  SLUICE_HD int64_t step(int operand) const { return steps[operand][rank - 1]; }
  /// Of an operand's first element in a row.
  SLUICE_HD int64_t offset(int operand, int64_t row) const {
    int64_t result = 0;
    for (int axis = rank - 2; axis > 0; --axis) {
      result += row % extents[axis] * steps[operand][axis];
      row /= extents[axis];
    }
    return rank > 1 ? result + row * steps[operand][0] : result;
  }

  int rank = 0;
  int64_t extents[kMaxRank], steps[kOperands][kMaxRank];
};

template <class... Tensors>
Broadcast(const Shape&, const Tensors&...) -> Broadcast<sizeof...(Tensors)>;

}  // namespace sluice::kernels
