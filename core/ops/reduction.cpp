#include "core/ops/reduction.h"

#include <algorithm>
#include <numeric>

#include "core/dispatch.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"

namespace sluice {

namespace {

constexpr int64_t kChunkElements = 32768;
constexpr int64_t kLeastChunkItems = 64;  // bounds the partial results to a 64th of x
// A chunk is a block of threads for every 128 columns or so. About 1024 blocks fill a GPU; more would only leave more to combine.
constexpr int64_t kGpuChunkElements = 8192, kGpuBlockColumns = 128, kGpuBlocks = 1024;

ReductionView view_of(const Tensor& x, int first, int last) {
  const Shape& shape = x.shape();
  ReductionView view{.kind = x.device().backend()};
  for (int axis = 0; axis < shape.rank(); ++axis) (axis < first ? view.outer : axis <= last ? view.n : view.inner) *= shape[axis];
  return view;
}

/// Reduces the neighbouring axes first..last, keeping them with extent 1. The result is of `dtype`: that of x, or of its arithmetic.
Tensor reduce_group(const char* op, Reduction rule, const Tensor& x, int first, int last, double factor, DType dtype) {
  const ReductionView view = view_of(x, first, last);
  Shape shape = x.shape();
  for (int axis = first; axis <= last; ++axis) shape = shape.with(axis, 1);
  const Tensor from = x.contiguous();
  const Tensor partial = empty({view.outer, view.chunks(), view.inner}, compute_dtype(x.dtype()), x.device_ptr());
  Tensor y = empty(shape, dtype, x.device_ptr());
  const Cost cost{static_cast<double>(x.elements()), static_cast<double>(x.bytes()), static_cast<double>(y.bytes())};
  run_kernel(op, {from}, cost, [&](auto& context) { kernels::reduce(context, rule, view, from, partial, factor, y); });
  return y;
}

Shape reduced_shape(Shape shape, const std::vector<int>& axes, bool keep) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) shape = keep ? shape.with(*axis, 1) : shape.without(*axis);
  return shape;
}

/// Neighbouring axes go together, the innermost group first. The factor is applied once, and the result is rounded to x's dtype once:
/// between groups it stays in that of the arithmetic.
Tensor reduce(const char* op, Reduction rule, const Tensor& x, const std::vector<int>& axes, bool keep, double factor = 1) {
  require(is_floating(x.dtype()), op, ": needs a floating dtype (f32, bf16, f64), got ", x);
  Tensor y = x;
  for (int end = static_cast<int>(axes.size()) - 1; end >= 0;) {
    int begin = end;
    while (begin > 0 && axes[begin - 1] == axes[begin] - 1) --begin;
    const bool is_only = begin == 0 && end == static_cast<int>(axes.size()) - 1;
    y = reduce_group(op, rule, y, axes[begin], axes[end], begin == 0 ? factor : 1, is_only ? x.dtype() : compute_dtype(x.dtype()));
    end = begin - 1;
  }
  if (axes.empty()) y = reduce_group(op, rule, x.contiguous().reshape({1}), 0, 0, factor, x.dtype());
  return cast(y.reshape(reduced_shape(x.shape(), axes, keep)), x.dtype());
}

int64_t extent_of(const Shape& shape, const std::vector<int>& axes) {
  int64_t product = 1;
  for (int axis : axes) product *= shape[axis];
  return product;
}

}  // namespace

std::vector<int> reduced_axes(const char* op, std::vector<int> axes, int rank) {
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int& axis : axes) axis = normal_axis(op, axis, rank);
  std::sort(axes.begin(), axes.end());
  require(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), op, ": needs distinct axes, got one twice");
  return axes;
}

int64_t ReductionView::chunk_items() const {
  const int64_t columns = std::max<int64_t>(1, inner);
  if (kind != DeviceKind::cuda) return std::max(kLeastChunkItems, kChunkElements / columns);
  const int64_t blocks = std::max<int64_t>(1, outer) * ((columns + kGpuBlockColumns - 1) / kGpuBlockColumns);
  const int64_t filling = n / std::max<int64_t>(1, kGpuBlocks / blocks);
  const int64_t wanted = std::max({int64_t{1}, kGpuChunkElements / columns, filling});
  return (wanted + kLeastChunkItems - 1) / kLeastChunkItems * kLeastChunkItems;
}

Tensor sum(const Tensor& x, std::vector<int> axes, bool keep) {
  return reduce("sum", Reduction::Sum, x, reduced_axes("sum", std::move(axes), x.rank()), keep);
}

Tensor prod(const Tensor& x, std::vector<int> axes, bool keep) {
  return reduce("prod", Reduction::Product, x, reduced_axes("prod", std::move(axes), x.rank()), keep);
}

Tensor mean(const Tensor& x, std::vector<int> axes, bool keep) {
  axes = reduced_axes("mean", std::move(axes), x.rank());
  const int64_t count = extent_of(x.shape(), axes);
  require(count > 0, "mean: needs at least one element to average, got shape ", x.shape());
  return reduce("mean", Reduction::Sum, x, axes, keep, 1.0 / static_cast<double>(count));
}

Tensor max(const Tensor& x, std::vector<int> axes, bool keep) {
  axes = reduced_axes("max", std::move(axes), x.rank());
  require(extent_of(x.shape(), axes) > 0, "max: needs at least one element to compare, got shape ", x.shape());
  return reduce("max", Reduction::Max, x, axes, keep);
}

Tensor min(const Tensor& x, std::vector<int> axes, bool keep) { return neg(max(neg(x), std::move(axes), keep)); }

double variance_divisor(const Shape& shape, const std::vector<int>& axes, double correction) {
  const int64_t count = extent_of(shape, reduced_axes("variance", axes, shape.rank()));
  require(static_cast<double>(count) > correction && correction >= 0, "variance: needs more elements than the correction of ", correction,
          ", and that not below 0, got ", count, " of ", shape);
  return static_cast<double>(count) - correction;
}

Tensor variance(const Tensor& x, std::vector<int> axes, bool keep, double correction) {
  const double divisor = variance_divisor(x.shape(), axes, correction);
  const Tensor wide = cast(x, compute_dtype(x.dtype())), distance = sub(wide, mean(wide, axes, true));
  return cast(div(sum(mul(distance, distance), axes, keep), divisor), x.dtype());
}

Tensor max_backward(const Tensor& x, int axis, const Tensor& y, const Tensor& dy) {
  const int reduced = normal_axis("max_backward", axis, x.rank());
  require(y.shape() == x.shape().with(reduced, 1) && dy.shape() == y.shape(), "max_backward: needs y and dy of shape ",
          x.shape().with(reduced, 1), ", got ", y.shape(), " and ", dy.shape());
  const Tensor from = x.contiguous(), largest = y.contiguous(), gradient = dy.contiguous();
  Tensor dx = empty_like(x);
  const Cost cost{static_cast<double>(x.elements()), static_cast<double>(x.bytes() + y.bytes() + dy.bytes()),
                  static_cast<double>(dx.bytes())};
  run_kernel("max_backward", {from, largest, gradient}, cost,
             [&](auto& context) { kernels::max_backward(context, view_of(x, reduced, reduced), from, largest, gradient, dx); });
  return dx;
}

Tensor prod_backward(const Tensor& x, int axis, const Tensor& dy) {
  const int reduced = normal_axis("prod_backward", axis, x.rank());
  require(dy.shape() == x.shape().with(reduced, 1), "prod_backward: needs dy of shape ", x.shape().with(reduced, 1), ", got ", dy.shape());
  const Tensor from = x.contiguous(), gradient = dy.contiguous();
  Tensor dx = empty_like(x);
  const Cost cost{2 * static_cast<double>(x.elements()), static_cast<double>(x.bytes() + dy.bytes()), static_cast<double>(dx.bytes())};
  run_kernel("prod_backward", {from, gradient}, cost,
             [&](auto& context) { kernels::prod_backward(context, view_of(x, reduced, reduced), from, gradient, dx); });
  return dx;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  require(broadcast_shape("sum_to", x.shape(), shape) == x.shape(), "sum_to: ", shape, " does not broadcast to ", x.shape());
  const int missing = x.rank() - shape.rank();
  std::vector<int> axes;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < missing || (shape[axis - missing] == 1 && x.dim(axis) != 1)) axes.push_back(axis);
  return reduce("sum_to", Reduction::Sum, x, axes, true).reshape(shape);
}

}  // namespace sluice
