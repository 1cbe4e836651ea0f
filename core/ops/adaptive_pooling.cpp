#include "core/ops/adaptive_pooling.h"

#include "core/dispatch.h"
#include "core/ops/elementwise_operands.h"
#include "core/ops/reduction.h"

namespace sluice {

namespace {

AdaptiveAxis axis_of(const char* op, int64_t in, int64_t out) {
  constexpr int64_t kMost = (int64_t{1} << 32) - 1;
  require(in < kMost && out < kMost / (in + 1), op, ": needs fewer than 2^32 pixels times places along an axis, got ", in, " and ", out);
  return {static_cast<uint32_t>(in), static_cast<uint32_t>(out)};
}

AdaptivePlan plan_of(const char* op, const Shape& x, int64_t height, int64_t width) {
  require(x.rank() == 4 && x[1] > 0 && x[2] > 0, op, ": needs images [batch, height, width, channels] with pixels, got ", x);
  require(height > 0 && width > 0, op, ": needs a size of at least 1 x 1, got ", height, " x ", width);
  return {x[0], x[3], axis_of(op, x[1], height), axis_of(op, x[2], width)};
}

/// How many pixels the windows along an axis have together.
double reads(const AdaptiveAxis& axis) {
  double count = 0;
  for (uint32_t place = 0; place < axis.out; ++place) count += static_cast<double>(axis.pixel_count(place));
  return count;
}
Cost cost_of(const AdaptivePlan& plan, const Tensor& read, const Tensor& written) {
  const double additions = reads(plan.rows) * reads(plan.columns) * static_cast<double>(plan.batch * plan.channels);
  return {additions, static_cast<double>(read.bytes()), static_cast<double>(written.bytes())};
}

}  // namespace

Tensor adaptive_average_pool2d(const Tensor& x, int64_t height, int64_t width) {
  constexpr const char* kOp = "adaptive_average_pool2d";
  require_floating(kOp, x);
  const AdaptivePlan plan = plan_of(kOp, x.shape(), height, width);
  if (height == 1 && width == 1) return mean(x, {1, 2}, true);
  const Tensor from = x.contiguous(), y = empty({x.dim(0), height, width, x.dim(3)}, x.dtype(), x.device_ptr());
  run_kernel(kOp, {from}, cost_of(plan, x, y), [&](auto& context) { kernels::adaptive_average_pool2d(context, from, plan, y); });
  return y;
}

Tensor adaptive_average_pool2d_backward(const Tensor& dy, const Shape& x) {
  constexpr const char* kOp = "adaptive_average_pool2d_backward";
  require_floating(kOp, dy);
  require(dy.rank() == 4 && x.rank() == 4 && dy.dim(0) == x[0] && dy.dim(3) == x[3], kOp,
          ": needs dy [batch, height, width, channels] with the batch and channels of x ", x, ", got ", dy);
  const AdaptivePlan plan = plan_of(kOp, x, dy.dim(1), dy.dim(2));
  const Tensor gradient = dy.contiguous(), dx = empty(x, dy.dtype(), dy.device_ptr());
  run_kernel(kOp, {gradient}, cost_of(plan, dy, dx),
             [&](auto& context) { kernels::adaptive_average_pool2d_backward(context, gradient, plan, dx); });
  return dx;
}

}  // namespace sluice
