#include "core/ops/convolution.h"

#include "core/dispatch.h"
#include "core/ops/copy.h"
#include "core/ops/depthwise.h"
#include "core/ops/matmul.h"
#include "core/ops/reduction.h"
#include "core/ops/spread_pixels.h"

namespace sluice {

namespace {

/// Memory for the columns of some images on a GPU, which one product then takes: it fits in the second-level cache of an H200 (50 MiB).
constexpr int64_t kGpuColumnBytes = int64_t{32} << 20;

void check(const Shape& x, const Shape& weight, const Window& window, int64_t groups) {
  require(groups >= 1 && x.rank() == 4 && weight.rank() == 4 && weight.elements() > 0 && weight[0] % groups == 0 &&
              x[3] == weight[3] * groups && weight[1] == window.size_h && weight[2] == window.size_w,
          "conv2d: needs x [batch, height, width, channels] and weight [outputs, ", window.size_h, ", ", window.size_w,
          ", channels / groups] with outputs and channels that are multiples of ", groups, " groups, got ", x, " and ", weight);
}

void check_gradient(const Tensor& dy, const WindowPlan& plan, int64_t outputs) {
  require(dy.shape() == plan.output(outputs), "conv2d: needs a gradient of ", plan.output(outputs), ", got ", dy.shape());
}

bool is_depthwise(const Shape& weight, int64_t groups) { return weight[0] == groups && weight[3] == 1; }

/// Each pixel of y depends on one pixel of x: a window of one pixel has no padding. Then a convolution is one product of matrices; of strided
/// pixels that is faster than a library's convolution even with a copy of them (docs/performance.md). A view is copied, too: a library's bits
/// depend on how far rows lie apart, and where a graph is cut decides what is a view.
bool is_pointwise(const Window& window) { return window.size_h == 1 && window.size_w == 1; }

/// The pixels of x that those of y depend on: a view.
Tensor read_pixels(const Tensor& x, const WindowPlan& plan) {
  const auto [stride_h, stride_w] = std::pair(plan.window.stride_h, plan.window.stride_w);
  return x.slice(1, 0, (plan.out_h - 1) * stride_h + 1, stride_h).slice(2, 0, (plan.out_w - 1) * stride_w + 1, stride_w);
}

/// Images or weights as rows of the elements of their last axis.
Tensor rows_of(const Tensor& x) { return x.reshape({x.shape().elements_before(-1), x.dim(-1)}); }

/// The weight of a window of one pixel as [outputs, channels].
Tensor matrix_of(const Tensor& weight) { return weight.reshape({weight.dim(0), weight.dim(3)}); }

/// A group's run of channels.
Tensor run_of(const Tensor& x, int axis, int64_t group, int64_t groups) {
  const int64_t run = x.dim(axis) / groups;
  return x.slice(axis, group * run, (group + 1) * run);
}

Cost cost_of(const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result) {
  return {2.0 * static_cast<double>(of.plan.batch * of.plan.out_pixels()) * static_cast<double>(of.outputs * of.taps()),
          static_cast<double>(first.bytes() + second.bytes()), static_cast<double>(result.bytes())};
}

Tensor gpu_columns(const Convolution& of, const DevicePtr& device) {
  // The sums of an input gradient go through them, so there they are not rounded.
  const DType dtype = of.pass == ConvolutionPass::input_gradient ? compute_dtype(of.dtype) : of.dtype;
  const int64_t pixels = of.plan.out_pixels(), image_bytes = pixels * of.taps() * static_cast<int64_t>(size_of(dtype));
  const int64_t images = std::clamp<int64_t>(kGpuColumnBytes / image_bytes, 1, of.plan.batch);
  return empty({images * pixels, of.taps()}, dtype, device);
}

void run(const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result) {
  const bool on_gpu = result.device().backend() == DeviceKind::cuda;
  const auto scratch_bytes = on_gpu ? 0 : kernels::convolution_scratch_bytes(of);
  if (!scratch_bytes) {  // bf16 without such a kernel
    Convolution in_f32 = of;
    in_f32.dtype = DType::f32;
    const bool in_place = result.dtype() == DType::f32;
    const Tensor exact = in_place ? result : empty(result.shape(), DType::f32, result.device_ptr());
    run(in_f32, cast(first, DType::f32), cast(second, DType::f32), exact);
    if (!in_place) copy(exact, result);
    return;
  }
  const Tensor scratch =
      on_gpu ? gpu_columns(of, result.device_ptr())
             : empty({result.device().options().threads, Device::charged_size(*scratch_bytes)}, DType::u8, result.device_ptr());
  run_kernel("conv2d", {first, second, result}, cost_of(of, first, second, result),
             [&](auto& context) { kernels::convolution(context, of, first, second, result, scratch); });
}

Tensor dense(const Tensor& x, const Tensor& weight, const WindowPlan& plan) {
  if (is_pointwise(plan.window)) return matmul(read_pixels(x, plan).contiguous(), matrix_of(weight), false, true);
  Tensor y = empty(plan.output(weight.dim(0)), x.dtype(), x.device_ptr());
  run({ConvolutionPass::forward, x.dtype(), plan, x.dim(3), weight.dim(0)}, x.contiguous(), weight, y);
  return y;
}

Tensor pointwise_input_gradient(const Tensor& dy, const Tensor& weight, const WindowPlan& plan) {
  const Tensor read = matmul(dy, matrix_of(weight));
  if (plan.window.stride_h == 1 && plan.window.stride_w == 1) return read;
  return spread_pixels({read}, {plan.batch, plan.in_h, plan.in_w, weight.dim(3)}, plan.window.stride_h, plan.window.stride_w);
}

Tensor dense_input_gradient(const Tensor& dy, const Tensor& weight, const WindowPlan& plan) {
  if (is_pointwise(plan.window)) return pointwise_input_gradient(dy, weight, plan);
  Tensor dx = empty({plan.batch, plan.in_h, plan.in_w, weight.dim(3)}, dy.dtype(), dy.device_ptr());
  run({ConvolutionPass::input_gradient, dy.dtype(), plan, weight.dim(3), weight.dim(0)}, dy, weight, dx);
  return dx;
}

Tensor dense_weight_gradient(const Tensor& dy, const Tensor& x, const WindowPlan& plan, const Tensor& sum = {}) {
  const Convolution of{ConvolutionPass::weight_gradient, dy.dtype(), plan, x.dim(3), dy.dim(3)};
  if (is_pointwise(plan.window)) {
    const Shape matrix{of.outputs, of.taps()};
    return matmul_onto(sum.defined() ? sum.reshape(matrix) : Tensor(), matrix, compute_dtype(dy.dtype()), rows_of(dy),
                       rows_of(read_pixels(x, plan).contiguous()), true, false)
        .reshape({of.outputs, 1, 1, of.channels});
  }
  const bool is_whole = dy.device().backend() == DeviceKind::cuda;
  const int64_t piece = images_of_piece(of), pieces = is_whole ? 1 : (plan.batch + piece - 1) / piece;
  const Tensor partial = empty({pieces, of.outputs, of.taps()}, compute_dtype(dy.dtype()), dy.device_ptr());
  run(of, dy, x.contiguous(), partial);
  return (pieces == 1 ? partial : sluice::sum(partial, {0})).reshape({of.outputs, plan.window.size_h, plan.window.size_w, of.channels});
}

}  // namespace

onednn::Convolution description_of(const Convolution& of, int64_t images) {
  const auto& [batch, in_h, in_w, out_h, out_w, before_h, before_w, window] = of.plan;
  return {of.pass,       of.dtype,        images,          in_h,     in_w,    of.channels, out_h, out_w, of.outputs, window.size_h,
          window.size_w, window.stride_h, window.stride_w, before_h, before_w};
}

int64_t images_of_piece(const Convolution& of) {
  constexpr int64_t kPixels = 1024, kMostPieces = 8;
  const int64_t images =
      std::max((kPixels + of.plan.out_pixels() - 1) / of.plan.out_pixels(), (of.plan.batch + kMostPieces - 1) / kMostPieces);
  const int64_t pieces = (of.plan.batch + images - 1) / images;
  return (of.plan.batch + pieces - 1) / pieces;
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Window& window, int64_t groups) {
  check(x.shape(), weight.shape(), window, groups);
  require(x.dtype() == weight.dtype() && is_floating(x.dtype()), "conv2d: needs two operands of one floating dtype, got ", x, " and ",
          weight);
  device_of("conv2d", {x, weight});  // also where there is nothing to multiply
  const WindowPlan plan = plan_of("conv2d", x.shape(), window);
  if (plan.output(1).elements() == 0) return empty(plan.output(weight.dim(0)), x.dtype(), x.device_ptr());
  if (is_depthwise(weight.shape(), groups)) return depthwise(x.contiguous(), weight.contiguous(), plan);
  if (groups == 1) return dense(x, weight.contiguous(), plan);
  Tensor y = empty(plan.output(weight.dim(0)), x.dtype(), x.device_ptr());
  for (int64_t group = 0; group < groups; ++group)
    copy(dense(run_of(x, 3, group, groups), run_of(weight, 0, group, groups).contiguous(), plan), run_of(y, 3, group, groups));
  return y;
}

Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Shape& x_shape, const Window& window, int64_t groups) {
  check(x_shape, weight.shape(), window, groups);
  const WindowPlan plan = plan_of("conv2d", x_shape, window);
  check_gradient(dy, plan, weight.dim(0));
  device_of("conv2d", {dy, weight});
  if (dy.elements() == 0) return zeros(x_shape, dy.dtype(), dy.device_ptr());
  if (is_depthwise(weight.shape(), groups)) return depthwise_input_gradient(dy.contiguous(), weight.contiguous(), plan);
  if (groups == 1) return dense_input_gradient(dy.contiguous(), weight.contiguous(), plan);
  Tensor dx = empty(x_shape, dy.dtype(), dy.device_ptr());
  for (int64_t group = 0; group < groups; ++group)
    copy(dense_input_gradient(run_of(dy, 3, group, groups).contiguous(), run_of(weight, 0, group, groups).contiguous(), plan),
         run_of(dx, 3, group, groups));
  return dx;
}

Tensor conv2d_weight_gradient(const Tensor& dy, const Tensor& x, const Shape& weight_shape, const Window& window, int64_t groups,
                              const Tensor& sum) {
  check(x.shape(), weight_shape, window, groups);
  const WindowPlan plan = plan_of("conv2d", x.shape(), window);
  check_gradient(dy, plan, weight_shape[0]);
  device_of("conv2d", {dy, x});
  if (dy.elements() == 0) return zeros(weight_shape, compute_dtype(dy.dtype()), dy.device_ptr());
  if (is_depthwise(weight_shape, groups)) return depthwise_weight_gradient(dy.contiguous(), x.contiguous(), plan);
  if (groups == 1) return dense_weight_gradient(dy.contiguous(), x, plan, sum);
  Tensor dweight = empty(weight_shape, compute_dtype(dy.dtype()), dy.device_ptr());
  for (int64_t group = 0; group < groups; ++group)
    copy(dense_weight_gradient(run_of(dy, 3, group, groups).contiguous(), run_of(x, 3, group, groups), plan),
         run_of(dweight, 0, group, groups));
  return dweight;
}

}  // namespace sluice
