#include "core/ops/padded_rows.h"

#include "core/ops/copy.h"

namespace sluice {

namespace {

Shape matrix_shape(const Shape& shape) { return {shape.elements_before(-1), shape[-1]}; }

/// Elements from one row to the next.
int64_t row_stride(int64_t width, DType dtype, const Device& device) {
  if (device.backend() != DeviceKind::cuda) return width;
  const auto pack = static_cast<int64_t>(16 / size_of(dtype));
  return (width + pack - 1) / pack * pack;
}

}  // namespace

Tensor empty_rows(const Shape& shape, DType dtype, const DevicePtr& device) {
  const Shape matrix = matrix_shape(shape);
  return empty(matrix.with(-1, row_stride(shape[-1], dtype, *device)), dtype, device).slice(-1, 0, shape[-1]).reshape(shape);
}

bool has_rows(const Tensor& x) {
  const Shape matrix = matrix_shape(x.shape());
  return (x.dim(-1) == 1 || x.stride(-1) == 1) && x.can_reshape(matrix) && (matrix[0] <= 1 || x.reshape(matrix).stride(0) >= matrix[1]);
}

Tensor as_matrix(const Tensor& x) { return (has_rows(x) ? x : x.contiguous()).reshape(matrix_shape(x.shape())); }

bool has_padded_rows(const Tensor& x) {
  if (!has_rows(x)) return false;
  const Tensor matrix = as_matrix(x);
  return matrix.dim(0) <= 1 || matrix.stride(0) == row_stride(x.dim(-1), x.dtype(), x.device());
}

Tensor handed_on(const Tensor& x) { return !x.is_contiguous() && x.rank() > 0 && has_padded_rows(x) ? x : x.dense(); }

Tensor as_padded_matrix(const Tensor& x) {
  if (has_padded_rows(x)) return as_matrix(x);
  const Tensor result = empty_rows(x.shape(), x.dtype(), x.device_ptr());
  copy(x, result);
  return as_matrix(result);
}

}  // namespace sluice
