#pragma once
#include <cstdint>

#include "core/host_device.h"
#include "core/ops/pooling.h"
#include "core/tensor.h"

namespace sluice {

/// Averages of images, as many as asked for whatever their size: place i along an axis of `in` pixels with `out` places is the mean of
/// pixels floor(i in / out) .. ceil((i + 1) in / out) - 1. Where out divides in, the windows lie side by side; else neighbours may share
/// a pixel, and with more places than pixels several show the same. As PyTorch's.
/// Shape   x [B, H, W, C] -> y [B, height, width, C], row-major; any sizes >= 1.
/// Dtypes  f32, f64, bf16 (sums in f32).
/// Errors  UsageError for x of another rank or dtype or without pixels, and sizes below 1 or of 2^32 pixels along an
///         axis times places there.
/// Cost    each pixel is read once by every window it is in, at most 4 where images become smaller. One place an image is a mean over all
///         its pixels, which many threads share.
Tensor adaptive_average_pool2d(const Tensor& x, int64_t height, int64_t width);

/// dx of shape `x`. Each of its pixels adds up its shares of the places that it is in, row by row: the same bits for every number of threads.
Tensor adaptive_average_pool2d_backward(const Tensor& dy, const Shape& x);

/// How one axis is divided; a kernel argument, too. In 32 bits, as GPUs divide these several times faster: (in + 1) (out + 1) < 2^32.
struct AdaptiveAxis {
  uint32_t in, out;

  /// The pixels of a place.
  SLUICE_HD IndexRange pixels(uint32_t place) const { return {place * in / out, (place * in + in + out - 1) / out}; }
  /// The places of a pixel: those p with p in / out < pixel + 1 and pixel < (p + 1) in / out. With `in` and `out` exchanged that is pixels().
  SLUICE_HD IndexRange places(uint32_t pixel) const { return AdaptiveAxis{out, in}.pixels(pixel); }
  SLUICE_HD int64_t pixel_count(uint32_t place) const {
    const auto [begin, end] = pixels(place);
    return end - begin;
  }
};

struct AdaptivePlan {
  int64_t batch, channels;
  AdaptiveAxis rows, columns;
};

namespace kernels {
void adaptive_average_pool2d(Cpu& cpu, const Tensor& x, const AdaptivePlan& plan, const Tensor& y);
void adaptive_average_pool2d(Cuda& cuda, const Tensor& x, const AdaptivePlan& plan, const Tensor& y);
void adaptive_average_pool2d_backward(Cpu& cpu, const Tensor& dy, const AdaptivePlan& plan, const Tensor& dx);
void adaptive_average_pool2d_backward(Cuda& cuda, const Tensor& dy, const AdaptivePlan& plan, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
