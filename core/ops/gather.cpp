#include "core/ops/gather.h"

#include "core/dispatch.h"
#include "core/ops/copy.h"
#include "core/ops/embedding.h"

namespace sluice {

namespace {

void require_indices(const char* op, const Tensor& index) {
  require(!is_floating(index.dtype()), op, ": needs an index of an integer dtype, got ", index);
}

/// Of gather and scatter_add.
GatherView view_of_elements(const char* op, const Shape& shape, int axis, const Tensor& index) {
  const int along = normal_axis(op, axis, shape.rank());
  require_indices(op, index);
  require(index.rank() == shape.rank() && index.shape().with(along, shape[along]) == shape, op, ": needs an index that differs from ",
          shape, " in axis ", along, " only, got ", index, "; slice() or expand() one of them");
  const AxisView view(shape, along);
  return {view.outer, view.n, index.dim(along), view.inner, false};
}

/// Of index_select and index_add.
GatherView view_of_slices(const char* op, const Shape& shape, int axis, const Tensor& index) {
  const int along = normal_axis(op, axis, shape.rank());
  require_indices(op, index);
  require(index.rank() == 1, op, ": needs an index [M], got ", index, "; gather() takes one of x's rank");
  const AxisView view(shape, along);
  return {view.outer, view.n, index.dim(0), view.inner, true};
}

Tensor gather_as(const char* op, const GatherView& view, const Tensor& x, const Tensor& index, const Shape& shape) {
  const Tensor from = x.contiguous(), places = index.contiguous(), y = empty(shape, x.dtype(), x.device_ptr());
  const auto bytes = static_cast<double>(y.bytes());
  run_kernel(op, {from, places}, {0, bytes + static_cast<double>(index.bytes()), bytes},
             [&](auto& context) { kernels::gather(context, view, from, places, y); });
  return y;
}

Cost sum_cost(const Tensor& index, const Tensor& source) {
  const auto bytes = static_cast<double>(source.bytes());
  return {static_cast<double>(source.elements()), 2 * bytes + static_cast<double>(index.bytes()), bytes};
}

/// sums, row-major and in the dtype of the arithmetic, += source. Slices along the first axis are rows, which a GPU adds by sorting.
void add_into_sums(const char* op, const GatherView& view, const Tensor& index, const Tensor& source, const Tensor& sums) {
  const Tensor places = index.contiguous(), from = source.contiguous();
  if (view.takes_slices && view.outer == 1) {
    run_kernel(op, {places, sums}, {0, static_cast<double>(index.bytes()), 0},
               [&](auto& context) { kernels::check_indices(context, places, view.n); });
    return embedding_backward_into(places, from.reshape({view.m, view.inner}), sums.reshape({view.n, view.inner}));
  }
  run_kernel(op, {places, from, sums}, sum_cost(index, source),
             [&](auto& context) { kernels::scatter_add(context, view, places, from, sums); });
}

Tensor add_to(const char* op, const GatherView& view, const Tensor& x, const Tensor& index, const Tensor& source, const Shape& shape) {
  require(source.shape() == shape && source.dtype() == x.dtype() && is_floating(x.dtype()), op, ": needs a source ", shape, " of ",
          "x's floating dtype, got ", source, " for ", x);
  device_of(op, {x, index, source});  // the copy would not tell
  const Tensor sums = empty(x.shape(), compute_dtype(x.dtype()), x.device_ptr());
  copy(x, sums);
  add_into_sums(op, view, index, source, sums);
  return cast(sums, x.dtype());
}

Tensor add_to_zeros(const char* op, const GatherView& view, const Tensor& index, const Tensor& dy, const Shape& shape) {
  const Tensor sums = zeros(shape, compute_dtype(dy.dtype()), dy.device_ptr());
  add_into_sums(op, view, index, dy, sums);
  return sums;
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  return gather_as("gather", view_of_elements("gather", x.shape(), axis, index), x, index, index.shape());
}

Tensor index_select(const Tensor& x, int axis, const Tensor& index) {
  const GatherView view = view_of_slices("index_select", x.shape(), axis, index);
  return gather_as("index_select", view, x, index, x.shape().with(axis, view.m));
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
  return add_to("scatter_add", view_of_elements("scatter_add", x.shape(), axis, index), x, index, source, index.shape());
}

Tensor index_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
  const GatherView view = view_of_slices("index_add", x.shape(), axis, index);
  return add_to("index_add", view, x, index, source, x.shape().with(axis, view.m));
}

Tensor gather_backward(const Tensor& dy, int axis, const Tensor& index, int64_t n) {
  const Shape shape = dy.shape().with(axis, n);
  return add_to_zeros("gather_backward", view_of_elements("gather_backward", shape, axis, index), index, dy, shape);
}

Tensor index_select_backward(const Tensor& dy, int axis, const Tensor& index, int64_t n) {
  const Shape shape = dy.shape().with(axis, n);
  return add_to_zeros("index_select_backward", view_of_slices("index_select_backward", shape, axis, index), index, dy, shape);
}

}  // namespace sluice
