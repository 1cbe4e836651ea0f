#include "core/ops/factorized_reduction.h"

#include "core/operands.h"
#include "core/ops/copy.h"
#include "core/ops/matmul.h"
#include "core/ops/padded_rows.h"
#include "core/ops/spread_pixels.h"

namespace sluice {

namespace {

int64_t halved(int64_t extent) { return (extent + 1) / 2; }

/// The places of an image that are even, or odd, along both axes: a view.
Tensor places_of(const Tensor& x, bool is_odd) { return x.slice(1, is_odd, x.dim(1), 2).slice(2, is_odd, x.dim(2), 2); }

/// Of a result's pixels those that come from within the image.
Tensor within(const Tensor& pixels, const Tensor& places) { return pixels.slice(1, 0, places.dim(1)).slice(2, 0, places.dim(2)); }

/// The rows of a half, which lie as far apart as those of both.
Tensor half_of(const Tensor& y, bool is_odd) {
  const int64_t outputs = y.dim(-1) / 2;
  return as_matrix(y).slice(1, is_odd * outputs, (is_odd + 1) * outputs);
}
Tensor matrix_of(const Tensor& weight) { return weight.reshape({weight.dim(0), weight.dim(3)}); }

/// The pixels of x that a half of y is made of, as rows.
Tensor gathered(const Tensor& x, bool is_odd) {
  const Tensor places = places_of(x, is_odd);
  const Shape shape{x.dim(0), halved(x.dim(1)), halved(x.dim(2)), x.dim(3)};
  const Tensor pixels = places.shape() == shape ? empty(shape, x.dtype(), x.device_ptr()) : zeros(shape, x.dtype(), x.device_ptr());
  copy(places, within(pixels, places));
  return as_matrix(pixels);
}

/// `first` is x, or the gradient of y.
void check(const Shape& x, const Tensor& first, const Tensor& even, const Tensor& odd) {
  require(x.rank() == 4 && even.rank() == 4 && even.elements() > 0 && even.shape() == Shape{even.dim(0), 1, 1, x[3]} &&
              odd.shape() == even.shape(),
          "factorized_reduction: needs x [batch, height, width, channels] and two weights [outputs, 1, 1, channels], got ", x, ", ",
          even.shape(), " and ", odd.shape());
  require(is_floating(first.dtype()) && even.dtype() == first.dtype() && odd.dtype() == first.dtype(),
          "factorized_reduction: needs operands of one floating dtype, got ", first, ", ", even, " and ", odd);
  device_of("factorized_reduction", {first, even, odd});
}

Shape result_shape(const Shape& x, int64_t outputs) { return {x[0], halved(x[1]), halved(x[2]), 2 * outputs}; }

void check_gradient(const Tensor& dy, const Shape& shape) {
  require(dy.shape() == shape, "factorized_reduction: needs a gradient of ", shape, ", got ", dy.shape());
}

}  // namespace

Tensor factorized_reduction(const Tensor& x, const Tensor& even, const Tensor& odd) {
  check(x.shape(), x, even, odd);
  const Tensor y = empty(result_shape(x.shape(), even.dim(0)), x.dtype(), x.device_ptr());
  if (y.elements() == 0) return y;
  for (const bool is_odd : {false, true})
    matmul_into(gathered(x, is_odd), matrix_of(is_odd ? odd : even), half_of(y, is_odd), false, true, 0);
  return y;
}

Tensor factorized_reduction_input_gradient(const Tensor& dy, const Tensor& even, const Tensor& odd, const Shape& x_shape,
                                           const Tensor& sum) {
  check(x_shape, dy, even, odd);
  const Shape shape = result_shape(x_shape, even.dim(0));
  check_gradient(dy, shape);
  if (dy.elements() == 0) return zeros(x_shape, dy.dtype(), dy.device_ptr());
  const Tensor gradient = dy.contiguous();  // a library's bits depend on how far rows lie apart
  std::vector<Tensor> halves;
  for (const bool is_odd : {false, true})
    halves.push_back(matmul(half_of(gradient, is_odd), matrix_of(is_odd ? odd : even)).reshape(shape.with(3, x_shape[3])));
  return spread_pixels(halves, x_shape, 2, 2, sum);
}

Tensor factorized_reduction_weight_gradient(const Tensor& dy, const Tensor& x, bool is_odd, const Tensor& sum) {
  require(x.rank() == 4 && dy.rank() == 4, "factorized_reduction: needs images [batch, height, width, channels], got ", x.shape(), " and ",
          dy.shape());
  const int64_t outputs = dy.dim(-1) / 2;
  check_gradient(dy, result_shape(x.shape(), outputs));
  device_of("factorized_reduction", {dy, x});
  const Shape shape{outputs, 1, 1, x.dim(3)};
  if (dy.elements() == 0) return zeros(shape, compute_dtype(dy.dtype()), dy.device_ptr());
  return matmul_onto(sum.defined() ? matrix_of(sum) : Tensor(), {outputs, x.dim(3)}, compute_dtype(dy.dtype()),
                     half_of(dy.contiguous(), is_odd), gathered(x, is_odd), true, false)
      .reshape(shape);
}

}  // namespace sluice
