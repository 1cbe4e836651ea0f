#pragma once
#include "core/host_device.h"
#include "core/tensor.h"

namespace sluice {

/// Images in another size, by bilinear interpolation: pixel i of a new axis lies at (i + 1/2) in / out - 1/2 on the old one, and takes of the two pixels
/// around that place what is not yet of the other; beyond the edges the last pixel goes on. As PyTorch does without align_corners.
/// Shape   x [B, H, W, C] -> y [B, height, width, C], any sizes >= 1.
/// Dtypes  f32, f64, bf16 (arithmetic in f32).
/// Errors  UsageError for x of another rank or dtype, and sizes below 1; on a GPU also for images of 2^32 runs of channels (16 bytes, or one channel) or
///         more.
/// Cost    4 pixels read an element forward; backward as many as an element reaches, in f32 for bf16. When images become smaller no more
///         pixels are read: what lies between is left out, as by PyTorch without antialias.
Tensor resize2d(const Tensor& x, int64_t height, int64_t width);

/// dx of shape `x`. Each of its pixels adds up what it gave, row by row: the same bits for every number of threads.
Tensor resize2d_backward(const Tensor& dy, const Shape& x);

/// How one axis is resized; a kernel argument, too.
struct ResizedAxis {
  int64_t in, out;

  /// The place of a new pixel: between `first` and `first + 1`, of which the latter counts `share`. C is the type of arithmetic.
  template <class C>
  struct Place {
    int64_t first;
    C share;
  };
  template <class C>
  SLUICE_HD Place<C> place(int64_t i) const {
    const C at = (static_cast<C>(i) + C(0.5)) * (static_cast<C>(in) / static_cast<C>(out)) - C(0.5);
    if (at <= 0) return {0, C(0)};
    const auto first = static_cast<int64_t>(at);
    if (first >= in - 1) return {in - 1, C(0)};
    return {first, at - static_cast<C>(first)};
  }
  /// The pixel after `first`, where that is one.
  SLUICE_HD int64_t after(int64_t first) const { return first + 1 < in ? first + 1 : first; }
  /// What a new pixel takes of an old one.
  template <class C>
  SLUICE_HD C weight(int64_t i, int64_t old) const {
    const auto [first, share] = place<C>(i);
    if (old == first) return C(1) - share;
    return old == first + 1 ? share : C(0);
  }
  /// New pixels [begin, end) are all that may take something of an old one; a little more, for what rounding may move.
  SLUICE_HD int64_t begin(int64_t old) const {
    const int64_t i = old <= 1 ? 0 : (2 * old - 1) * out / (2 * in) - 2;
    return i < 0 ? 0 : i;
  }
  SLUICE_HD int64_t end(int64_t old) const {
    const int64_t i = old + 1 >= in ? out : (2 * old + 3) * out / (2 * in) + 2;
    return i < out ? i : out;
  }
};

struct ResizePlan {
  int64_t batch, channels;
  ResizedAxis rows, columns;
};

namespace kernels {
void resize2d(Cpu& cpu, const Tensor& x, const ResizePlan& plan, const Tensor& y);
void resize2d(Cuda& cuda, const Tensor& x, const ResizePlan& plan, const Tensor& y);
void resize2d_backward(Cpu& cpu, const Tensor& dy, const ResizePlan& plan, const Tensor& dx);
void resize2d_backward(Cuda& cuda, const Tensor& dy, const ResizePlan& plan, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
