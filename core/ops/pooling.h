#pragma once
#include "core/host_device.h"
#include "core/ops/window.h"
#include "core/tensor.h"

namespace sluice {

/// The largest, or the average, of the elements under each place of a window, channel by channel. Padding takes no part: it is never the
/// largest and does not count in the average.
/// Shape   x [B, H, W, C] -> y [B, OH, OW, C], row-major.
/// Dtypes  f32, f64, bf16 (sums in f32).
/// Errors  UsageError as plan_of; for a maximum over more than 256 places.
struct MaxPooled {
  Tensor y;
  Tensor place;  ///< u8, as y: which place of the window, row by row, is the largest; of equal ones the first. Undefined if not wanted
};
MaxPooled max_pool2d(const Tensor& x, const Window& window, bool wants_place);
Tensor average_pool2d(const Tensor& x, const Window& window);

/// dx of shape `x`, each element gathered from the places that cover it, in an order that depends on shapes alone. With a `sum`, like dx, it
/// is the rounded dx + sum: the bits of an addition afterwards, in the same pass over memory.
Tensor max_pool2d_backward(const Tensor& dy, const Tensor& place, const Shape& x, const Window& window, const Tensor& sum = {});
Tensor average_pool2d_backward(const Tensor& dy, const Shape& x, const Window& window, const Tensor& sum = {});

/// Indices [begin, end) along one axis.
struct IndexRange {
  int64_t begin, end;
};
/// Rows (or columns) of x under place `place` of a window along an axis.
SLUICE_HD inline IndexRange covered_by(int64_t place, int64_t in, int64_t size, int64_t stride, int64_t before) {
  const int64_t begin = place * stride - before, end = begin + size;
  return {begin < 0 ? 0 : begin, end < in ? end : in};
}
/// Places of the window along an axis under which row (or column) `at` of x lies.
SLUICE_HD inline IndexRange covering(int64_t at, int64_t out, int64_t size, int64_t stride, int64_t before) {
  const int64_t last = (at + before) / stride + 1, past = at + before - size;
  return {past < 0 ? 0 : past / stride + 1, last < out ? last : out};
}

namespace kernels {
/// place may be undefined.
void max_pool2d(Cpu& cpu, const Tensor& x, const WindowPlan& plan, const Tensor& y, const Tensor& place);
void max_pool2d(Cuda& cuda, const Tensor& x, const WindowPlan& plan, const Tensor& y, const Tensor& place);
/// sum may be undefined.
void max_pool2d_backward(Cpu& cpu, const Tensor& dy, const Tensor& place, const WindowPlan& plan, const Tensor& sum, const Tensor& dx);
void max_pool2d_backward(Cuda& cuda, const Tensor& dy, const Tensor& place, const WindowPlan& plan, const Tensor& sum, const Tensor& dx);
void average_pool2d(Cpu& cpu, const Tensor& x, const WindowPlan& plan, const Tensor& y);
void average_pool2d(Cuda& cuda, const Tensor& x, const WindowPlan& plan, const Tensor& y);
void average_pool2d_backward(Cpu& cpu, const Tensor& dy, const WindowPlan& plan, const Tensor& sum, const Tensor& dx);
void average_pool2d_backward(Cuda& cuda, const Tensor& dy, const WindowPlan& plan, const Tensor& sum, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
