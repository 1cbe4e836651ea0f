#include "core/ops/resize.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

ResizePlan plan_of(const char* op, const Shape& x, int64_t height, int64_t width) {
  require(x.rank() == 4 && x[1] > 0 && x[2] > 0, op, ": needs images [batch, height, width, channels] with pixels, got ", x);
  require(height > 0 && width > 0, op, ": needs a size of at least 1 x 1, got ", height, " x ", width);
  return {x[0], x[3], {x[1], height}, {x[2], width}};
}

void check_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), op, ": needs a floating dtype (f32, bf16, f64), got ", x);
}

}  // namespace

Tensor resize2d(const Tensor& x, int64_t height, int64_t width) {
  check_floating("resize2d", x);
  const ResizePlan plan = plan_of("resize2d", x.shape(), height, width);
  const Tensor from = x.contiguous(), y = empty({x.dim(0), height, width, x.dim(3)}, x.dtype(), x.device_ptr());
  const Cost cost{9 * static_cast<double>(y.elements()), static_cast<double>(x.bytes()), static_cast<double>(y.bytes())};
  run_kernel("resize2d", {from}, cost, [&](auto& context) { kernels::resize2d(context, from, plan, y); });
  return y;
}

Tensor resize2d_backward(const Tensor& dy, const Shape& x) {
  check_floating("resize2d_backward", dy);
  require(dy.rank() == 4 && x.rank() == 4 && dy.dim(0) == x[0] && dy.dim(3) == x[3],
          "resize2d_backward: needs dy [batch, height, width, channels] with the batch and channels of x ", x, ", got ", dy);
  const ResizePlan plan = plan_of("resize2d_backward", x, dy.dim(1), dy.dim(2));
  const Tensor gradient = dy.contiguous(), dx = empty(x, dy.dtype(), dy.device_ptr());
  const Cost cost{8 * static_cast<double>(dy.elements()), static_cast<double>(dy.bytes()), static_cast<double>(dx.bytes())};
  run_kernel("resize2d_backward", {gradient}, cost, [&](auto& context) { kernels::resize2d_backward(context, gradient, plan, dx); });
  return dx;
}

}  // namespace sluice
