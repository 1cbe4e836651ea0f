#pragma once
#include "core/cpu/onednn_convolution.h"
#include "core/ops/window.h"
#include "core/tensor.h"

namespace sluice {

/// Convolution of images without a bias:
/// y[b, i, j, o] = sum over r, s, c of x[b, i stride_h - before_h + r, j stride_w - before_w + s, c] weight[o, r, s, c].
/// With groups, the channels and the outputs are cut into so many runs of equal length, each convolved with its own; as many groups as
/// channels and outputs make a depthwise convolution, which has kernels of its own (depthwise.h).
/// Shape   x [B, H, W, C], weight [O, size_h, size_w, C / groups] -> y [B, OH, OW, O]; see Window.
/// Dtypes  f32, f64, bf16 (sums in f32); both operands alike.
/// Errors  UsageError naming the shapes.
/// Threads the same bits for every number of threads: work is cut by images and shapes alone.
/// Cost    2 size_h size_w C / groups FLOPs an element of y; bounded scratch, on the CPU per intra-op thread.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Window& window, int64_t groups = 1);

/// The gradients for dy of y's shape, each computed without the other. That of the weight is in the type of arithmetic (f32 for bf16);
/// where `sum` is a tensor of its shape and windows are of one pixel, it may be that sum with the gradient added (matmul_onto()).
Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Shape& x_shape, const Window& window, int64_t groups = 1);
Tensor conv2d_weight_gradient(const Tensor& dy, const Tensor& x, const Shape& weight_shape, const Window& window, int64_t groups = 1,
                              const Tensor& sum = {});

using ConvolutionPass = onednn::ConvolutionPass;

/// One of the three passes over images x with C channels and y with O. As products of matrices, with a row of `columns` (the window's
/// pixels of x, in the order of a weight's elements) for every pixel of y:
/// forward y = columns weight^T, input_gradient dcolumns = dy weight, weight_gradient dweight = dy^T columns.
struct Convolution {
  ConvolutionPass pass;
  DType dtype;
  WindowPlan plan;
  int64_t channels, outputs;

  /// Extent of a row of columns.
  int64_t taps() const { return plan.window.size_h * plan.window.size_w * channels; }
};

/// Images that are convolved by one call of a CPU kernel: enough for the weights' traffic to be small beside the arithmetic, and at most
/// 8 pieces, of which each has a weight gradient of its own.
int64_t images_of_piece(const Convolution& of);

/// The convolution of some of the images in a library's terms.
onednn::Convolution description_of(const Convolution& of, int64_t images);

namespace kernels {
/// Bytes of scratch for one CPU thread; nothing when there is no CPU kernel for this dtype. A function of the shapes alone.
std::optional<int64_t> convolution_scratch_bytes(const Convolution& of);
/// forward: x, weight -> y. input_gradient: dy, weight -> dx. weight_gradient: dy, x -> partial [pieces, O, taps] in the type of
/// arithmetic: on the CPU the sums over each piece of images, on CUDA one over all.
/// Scratch u8 [threads, bytes] on the CPU; on CUDA columns [pixels of some images, taps], also where cuDNN leaves them alone.
void convolution(Cpu& cpu, const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result, const Tensor& scratch);
void convolution(Cuda& cuda, const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result, const Tensor& scratch);
}  // namespace kernels

}  // namespace sluice
