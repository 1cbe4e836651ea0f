#include "core/ops/depthwise.h"

#include "core/dispatch.h"
#include "core/ops/copy.h"
#include "core/ops/reduction.h"

namespace sluice {

namespace {

Tensor taps_of(const Tensor& weight) {
  const int64_t channels = weight.dim(0), taps = weight.elements() / channels;
  Tensor result = empty({taps, channels}, compute_dtype(weight.dtype()), weight.device_ptr());
  copy(weight.reshape({channels, taps}).transpose(0, 1), result);
  return result;
}

Cost cost_of(const WindowPlan& plan, const Tensor& first, const Tensor& second, const Tensor& result) {
  const double sums = static_cast<double>(plan.output(first.dim(-1)).elements());
  return {2 * sums * static_cast<double>(plan.window.size_h * plan.window.size_w), static_cast<double>(first.bytes() + second.bytes()),
          static_cast<double>(result.bytes())};
}

/// Rows of y in a chunk: so many pixels that the partial sums are small beside the images, and on the CPU at most 32 chunks.
int64_t chunk_rows(const WindowPlan& plan, DeviceKind kind) {
  constexpr int64_t kPixels = 512, kMostChunks = 32;
  const int64_t rows = (kPixels + plan.out_w - 1) / plan.out_w;
  return kind == DeviceKind::cuda ? rows : std::max(rows, (plan.batch * plan.out_h + kMostChunks - 1) / kMostChunks);
}

}  // namespace

Tensor depthwise(const Tensor& x, const Tensor& weight, const WindowPlan& plan) {
  const Tensor taps = taps_of(weight);
  Tensor y = empty(plan.output(x.dim(3)), x.dtype(), x.device_ptr());
  run_kernel("depthwise", {x, taps}, cost_of(plan, x, weight, y), [&](auto& context) { kernels::depthwise(context, plan, x, taps, y); });
  return y;
}

Tensor depthwise_input_gradient(const Tensor& dy, const Tensor& weight, const WindowPlan& plan) {
  const Tensor taps = taps_of(weight);
  Tensor dx = empty({plan.batch, plan.in_h, plan.in_w, dy.dim(3)}, dy.dtype(), dy.device_ptr());
  run_kernel("depthwise_input_gradient", {dy, taps}, cost_of(plan, dy, weight, dx),
             [&](auto& context) { kernels::depthwise_input_gradient(context, plan, dy, taps, dx); });
  return dx;
}

Tensor depthwise_weight_gradient(const Tensor& dy, const Tensor& x, const WindowPlan& plan) {
  const int64_t taps = plan.window.size_h * plan.window.size_w, channels = x.dim(3);
  const int64_t rows_per_chunk = chunk_rows(plan, dy.device().backend());
  const int64_t chunks = (plan.batch * plan.out_h + rows_per_chunk - 1) / rows_per_chunk;
  const Tensor partial = empty({chunks, taps, channels}, compute_dtype(dy.dtype()), dy.device_ptr());
  run_kernel("depthwise_weight_gradient", {dy, x}, cost_of(plan, dy, x, partial),
             [&](auto& context) { kernels::depthwise_weight_gradient(context, plan, dy, x, rows_per_chunk, partial); });
  const Tensor total = chunks == 1 ? partial.reshape({taps, channels}) : sum(partial, {0});
  return total.transpose(0, 1).contiguous().reshape({channels, plan.window.size_h, plan.window.size_w, 1});
}

}  // namespace sluice
