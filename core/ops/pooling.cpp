#include "core/ops/pooling.h"

#include "core/dispatch.h"
#include "core/ops/gradient_sum.h"

namespace sluice {

namespace {

constexpr int64_t kMostPlaces = 256;  // that a u8 tells apart

void check_floating(const char* op, const Tensor& x) {
  require(is_floating(x.dtype()), op, ": needs a floating dtype (f32, bf16, f64), got ", x);
}

void check_gradient(const char* op, const Tensor& dy, const WindowPlan& plan) {
  require(dy.rank() == 4 && dy.shape() == plan.output(dy.dim(-1)), op, ": needs dy of y's shape ", plan.output(dy.dim(-1)), ", got ", dy);
}

/// One operation for each element of y and place of the window; every tensor once.
Cost cost_of(const Tensor& y, const Tensor& read, const Tensor& written, const Window& window) {
  const auto places = static_cast<double>(window.size_h * window.size_w);
  return {places * static_cast<double>(y.elements()), static_cast<double>(read.bytes()), static_cast<double>(written.bytes())};
}

}  // namespace

MaxPooled max_pool2d(const Tensor& x, const Window& window, bool wants_place) {
  check_floating("max_pool2d", x);
  const WindowPlan plan = plan_of("max_pool2d", x.shape(), window);
  require(window.size_h * window.size_w <= kMostPlaces, "max_pool2d: needs a window of at most ", kMostPlaces, " places, got ",
          window.size_h, " x ", window.size_w);
  const Tensor from = x.contiguous(), y = empty(plan.output(x.dim(-1)), x.dtype(), x.device_ptr());
  Tensor place;
  if (wants_place) place = empty(y.shape(), DType::u8, x.device_ptr());
  Cost cost = cost_of(y, x, y, window);
  if (wants_place) cost.bytes_written += static_cast<double>(place.bytes());
  run_kernel("max_pool2d", {from}, cost, [&](auto& context) { kernels::max_pool2d(context, from, plan, y, place); });
  return {y, place};
}

Tensor max_pool2d_backward(const Tensor& dy, const Tensor& place, const Shape& x, const Window& window, const Tensor& sum) {
  const WindowPlan plan = plan_of("max_pool2d_backward", x, window);
  check_gradient("max_pool2d_backward", dy, plan);
  require(place.defined() && place.dtype() == DType::u8 && place.shape() == dy.shape(), "max_pool2d_backward: needs the places u8 ",
          dy.shape(), " that max_pool2d gave, got ", place);
  const Tensor gradient = dy.contiguous(), places = place.contiguous(), added = row_major_sum("max_pool2d_backward", sum, x, dy.dtype());
  const Tensor dx = empty(x, dy.dtype(), dy.device_ptr());
  Cost cost = cost_of(dy, dy, dx, window);
  cost += sum_cost(added);
  cost.bytes_read += static_cast<double>(place.bytes());
  run_kernel("max_pool2d_backward", {gradient, places, added}, cost,
             [&](auto& context) { kernels::max_pool2d_backward(context, gradient, places, plan, added, dx); });
  return dx;
}

Tensor average_pool2d(const Tensor& x, const Window& window) {
  check_floating("average_pool2d", x);
  const WindowPlan plan = plan_of("average_pool2d", x.shape(), window);
  const Tensor from = x.contiguous(), y = empty(plan.output(x.dim(-1)), x.dtype(), x.device_ptr());
  run_kernel("average_pool2d", {from}, cost_of(y, x, y, window), [&](auto& context) { kernels::average_pool2d(context, from, plan, y); });
  return y;
}

Tensor average_pool2d_backward(const Tensor& dy, const Shape& x, const Window& window, const Tensor& sum) {
  const WindowPlan plan = plan_of("average_pool2d_backward", x, window);
  check_gradient("average_pool2d_backward", dy, plan);
  const Tensor gradient = dy.contiguous(), added = row_major_sum("average_pool2d_backward", sum, x, dy.dtype());
  const Tensor dx = empty(x, dy.dtype(), dy.device_ptr());
  Cost cost = cost_of(dy, dy, dx, window);
  cost += sum_cost(added);
  run_kernel("average_pool2d_backward", {gradient, added}, cost,
             [&](auto& context) { kernels::average_pool2d_backward(context, gradient, plan, added, dx); });
  return dx;
}

}  // namespace sluice
