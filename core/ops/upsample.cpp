#include "core/ops/upsample.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

UpsamplePlan plan_of(const char* op, const Shape& x, int64_t factor, int64_t height, int64_t width) {
  require(x.rank() == 4, op, ": needs images [batch, height, width, channels], got ", x);
  require(factor >= 1, op, ": needs a factor of at least 1, got ", factor);
  require(height >= 0 && width >= 0 && (height + factor - 1) / factor == x[1] && (width + factor - 1) / factor == x[2], op,
          ": needs a size whose ", factor, "th part, rounded up, is ", x[1], " x ", x[2], ", got ", height, " x ", width);
  return {x[0], x[1], x[2], height, width, x[3], factor};
}

void check_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), op, ": needs a floating dtype (f32, bf16, f64), got ", x);
}

}  // namespace

Tensor upsample2d(const Tensor& x, int64_t factor, int64_t height, int64_t width) {
  check_floating("upsample2d", x);
  const UpsamplePlan plan = plan_of("upsample2d", x.shape(), factor, height, width);
  const Tensor from = x.contiguous(), y = empty({x.dim(0), height, width, x.dim(3)}, x.dtype(), x.device_ptr());
  const Cost cost{0, static_cast<double>(x.bytes()), static_cast<double>(y.bytes())};
  run_kernel("upsample2d", {from}, cost, [&](auto& context) { kernels::upsample2d(context, from, plan, y); });
  return y;
}

Tensor upsample2d_backward(const Tensor& dy, const Shape& x, int64_t factor) {
  check_floating("upsample2d_backward", dy);
  require(dy.rank() == 4, "upsample2d_backward: needs dy [batch, height, width, channels], got ", dy);
  const UpsamplePlan plan = plan_of("upsample2d_backward", x, factor, dy.dim(1), dy.dim(2));
  require(dy.dim(0) == x[0] && dy.dim(3) == x[3], "upsample2d_backward: needs dy with the batch and channels of x ", x, ", got ", dy);
  const Tensor gradient = dy.contiguous(), dx = empty(x, dy.dtype(), dy.device_ptr());
  const Cost cost{static_cast<double>(dy.elements()), static_cast<double>(dy.bytes()), static_cast<double>(dx.bytes())};
  run_kernel("upsample2d_backward", {gradient}, cost, [&](auto& context) { kernels::upsample2d_backward(context, gradient, plan, dx); });
  return dx;
}

}  // namespace sluice
