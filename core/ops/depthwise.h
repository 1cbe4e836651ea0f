#pragma once
#include "core/ops/window.h"
#include "core/tensor.h"

namespace sluice {

/// Convolution of each channel with a window of its own; what conv2d does when there are as many groups as channels and outputs.
/// Shape   x [B, H, W, C], weight [C, size_h, size_w, 1], both row-major -> y [B, OH, OW, C]. No extent is 0.
/// Dtypes  f32, f64, bf16 (sums in f32).
/// Threads the same bits for every number of threads.
Tensor depthwise(const Tensor& x, const Tensor& weight, const WindowPlan& plan);
Tensor depthwise_input_gradient(const Tensor& dy, const Tensor& weight, const WindowPlan& plan);
/// In the type of arithmetic: sums over chunks of rows of images that depend on shapes and the kind of device alone, added up in order.
Tensor depthwise_weight_gradient(const Tensor& dy, const Tensor& x, const WindowPlan& plan);

namespace kernels {
/// taps [size_h size_w, C] is the weight with its channels innermost, in the type of arithmetic.
void depthwise(Cpu& cpu, const WindowPlan& plan, const Tensor& x, const Tensor& taps, const Tensor& y);
void depthwise(Cuda& cuda, const WindowPlan& plan, const Tensor& x, const Tensor& taps, const Tensor& y);
void depthwise_input_gradient(Cpu& cpu, const WindowPlan& plan, const Tensor& dy, const Tensor& taps, const Tensor& dx);
void depthwise_input_gradient(Cuda& cuda, const WindowPlan& plan, const Tensor& dy, const Tensor& taps, const Tensor& dx);
/// partial [chunks, size_h size_w, C] = the sums over chunks of rows of y, counted over all images.
void depthwise_weight_gradient(Cpu& cpu, const WindowPlan& plan, const Tensor& dy, const Tensor& x, int64_t rows_per_chunk,
                               const Tensor& partial);
void depthwise_weight_gradient(Cuda& cuda, const WindowPlan& plan, const Tensor& dy, const Tensor& x, int64_t rows_per_chunk,
                               const Tensor& partial);
}  // namespace kernels

}  // namespace sluice
