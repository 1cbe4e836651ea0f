#include "core/ops/select.h"

#include "core/dispatch.h"
#include "core/ops/comparison.h"
#include "core/ops/copy.h"
#include "core/ops/ramp.h"

namespace sluice {

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require(condition.dtype() == DType::u8, "where: needs a condition of u8, got ", condition, "; a comparison makes one, such as x != 0");
  require_same_dtype("where", a, b);
  const Shape shape = broadcast_shape("where", condition.shape(), broadcast_shape("where", a.shape(), b.shape()));
  Tensor y = empty(shape, a.dtype(), a.device_ptr());
  const Cost cost = pass_cost(static_cast<double>(condition.bytes() + a.bytes() + b.bytes()), y);
  run_kernel("where", {condition, a, b}, cost, [&](auto& context) { kernels::where(context, condition, a, b, y); });
  return y;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double number) {
  require(broadcast_shape("masked_fill", x.shape(), mask.shape()) == x.shape(), "masked_fill: needs a mask that broadcasts to ", x.shape(),
          ", got ", mask);
  return where(mask, number_like("masked_fill", x, number), x);
}

Tensor triangle(int64_t rows, int64_t columns, int64_t diagonal, const DevicePtr& device) {
  const auto first = static_cast<double>(diagonal);
  const Tensor last = arange(first, first + static_cast<double>(rows), 1, DType::i64, device).reshape({rows, 1});
  return less_equal(arange(0, static_cast<double>(columns), 1, DType::i64, device), last);
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  require(x.rank() >= 2, "tril: needs matrices in the last two axes, got ", x);
  return where(triangle(x.dim(-2), x.dim(-1), diagonal, x.device_ptr()), x, 0);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  require(x.rank() >= 2, "triu: needs matrices in the last two axes, got ", x);
  return where(triangle(x.dim(-2), x.dim(-1), diagonal - 1, x.device_ptr()), 0, x);
}

Tensor eye(int64_t n, DType dtype, const DevicePtr& device) {
  const Tensor places = arange(0, static_cast<double>(n), 1, DType::i64, device);
  return cast(equal(places.reshape({n, 1}), places), dtype);
}

}  // namespace sluice
