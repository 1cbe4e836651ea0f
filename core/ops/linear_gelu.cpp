#include "core/ops/linear_gelu.h"

#include "core/dispatch.h"
#include "core/ops/linear.h"
#include "core/ops/padded_rows.h"

namespace sluice {

namespace {

double bytes_of(const Tensor& x) { return static_cast<double>(x.bytes()); }

void check(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require(x.rank() >= 1 && weight.rank() == 2 && x.dim(-1) == weight.dim(1) && x.dim(-1) > 0,
          "linear_gelu: needs x [..., in] and weight [out, in] with in >= 1, got ", x.shape(), " and ", weight.shape());
  require(bias.defined() && bias.shape() == Shape{weight.dim(0)}, "linear_gelu: needs a bias [", weight.dim(0), "], got ", bias);
  require(is_floating(x.dtype()) && weight.dtype() == x.dtype() && bias.dtype() == x.dtype(),
          "linear_gelu: needs x, weight and bias of one floating dtype, got ", x, ", ", weight, " and ", bias);
}

}  // namespace

LinearGelu linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x, weight, bias);
  device_of("linear_gelu", {x, weight, bias});  // also where there is nothing to multiply
  const bool makes_both = x.device().backend() == DeviceKind::cuda;
  const Shape shape = x.shape().with(-1, weight.dim(0));
  const Tensor before = makes_both ? empty_rows(shape, x.dtype(), x.device_ptr()) : linear(x, weight, bias);
  Tensor y = empty_rows(shape, x.dtype(), x.device_ptr());
  if (y.elements() == 0) return {y, before};
  const kernels::MatmulOperands product{
      as_matrix(x.contiguous()), weight.contiguous(), as_matrix(before), bias.contiguous(), false, true, 0};
  Cost cost{static_cast<double>(y.elements()), bytes_of(before), bytes_of(y)};
  if (makes_both)
    cost += {2.0 * static_cast<double>(y.elements() * x.dim(-1)), bytes_of(x) + bytes_of(weight) - bytes_of(before), bytes_of(before)};
  run_kernel("linear_gelu", {product.a, product.b, product.c, product.bias}, cost,
             [&](auto& context) { kernels::linear_gelu(context, product, as_matrix(y)); });
  return {y, before};
}

}  // namespace sluice
