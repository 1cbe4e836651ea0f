#include "core/ops/copy.h"

#include "core/dispatch.h"

namespace sluice {

void copy(const Tensor& from, const Tensor& to) {
  require(from.shape() == to.shape(), "copy: needs equal shapes, got ", from.shape(), " and ", to.shape());
  require(from.device().kind() == to.device().kind(), "copy: needs devices of one kind, got ", from.device().name(), " and ",
          to.device().name());
  const Cost cost{0, static_cast<double>(from.bytes()), static_cast<double>(to.bytes())};
  run_kernel(to.device(), cost, [&](auto& context) { kernels::copy(context, from, to); });
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor result = empty(x.shape(), dtype, x.device_ptr());
  copy(x, result);
  return result;
}

void fill(const Tensor& x, double value) {
  require(x.is_contiguous(), "fill: needs a contiguous tensor, got a strided view of ", x.shape());
  run_kernel(x.device(), {0, 0, static_cast<double>(x.bytes())}, [&](auto& context) { kernels::fill(context, x, value); });
}

}  // namespace sluice
