#pragma once

#include "core/error.h"
#include "core/host_device.h"
#include "core/shape.h"

namespace sluice {

/// What lies around an image. With `same` there are ceil(in / stride) places of the window and zeros (or nothing, for a pool) beyond the
/// edges; an odd number of those puts the smaller half before, as TensorFlow does. With `valid` the window stays inside. With `given` it may
/// go pad_h rows and pad_w columns beyond each edge, as in PyTorch.
enum class Padding { same, valid, given };

/// A window that moves over the two spatial axes of an image.
struct Window {
  int64_t size_h = 1, size_w = 1, stride_h = 1, stride_w = 1;
  Padding padding = Padding::same;
  int64_t pad_h = 0, pad_w = 0;            ///< on each side, of padding `given`
  int64_t dilation_h = 1, dilation_w = 1;  ///< how far the window's places lie apart; of conv2d() on Vars alone

  bool operator==(const Window&) const = default;
};

/// Where a window lies on images [B, H, W, C]: its place (i, j) covers rows i * stride_h - before_h + [0, size_h) and columns likewise, of
/// which those outside [0, in_h) and [0, in_w) are padding. A kernel argument, too.
struct WindowPlan {
  int64_t batch, in_h, in_w, out_h, out_w;
  int64_t before_h, before_w;  ///< rows and columns of padding before the first
  Window window;

  /// Of one sample's images, in and out.
  SLUICE_HD int64_t in_pixels() const { return in_h * in_w; }
  SLUICE_HD int64_t out_pixels() const { return out_h * out_w; }
  Shape output(int64_t channels) const { return {batch, out_h, out_w, channels}; }
};

/// Along one axis: the number of places of the window and the padding before the first.
struct WindowAxis {
  int64_t out, before;
};
inline WindowAxis window_axis(int64_t in, int64_t size, int64_t stride, Padding padding, int64_t pad = 0) {
  if (padding != Padding::same) return {in + 2 * pad < size ? 0 : (in + 2 * pad - size) / stride + 1, pad};
  const int64_t out = (in + stride - 1) / stride;
  const int64_t missing = (out - 1) * stride + size - in;
  return {out, missing > 0 ? missing / 2 : 0};
}

/// Padding smaller than the window leaves no place where all is padding, of which a pool has nothing to take.
inline void require_padding(const char* op, const Window& window) {
  const auto [size_h, size_w, stride_h, stride_w, padding, pad_h, pad_w, dilation_h, dilation_w] = window;
  require(padding == Padding::given || (pad_h == 0 && pad_w == 0), op, ": needs padding `given` for padding of ", pad_h, " and ", pad_w,
          ", got `", padding == Padding::same ? "same" : "valid", "`; set Window::padding");
  require(pad_h >= 0 && pad_w >= 0 && pad_h < size_h && pad_w < size_w, op, ": needs padding from 0 to below the window of ", size_h, " x ",
          size_w, ", got ", pad_h, " and ", pad_w, "; add more with pad");
}

/// Errors  UsageError naming the op, the shapes and a cure: x is not [B, H, W, C], a size or stride is below 1, a window is larger than the
/// image with its padding, or padding is given that is not smaller than the window, or for another kind of padding.
inline WindowPlan plan_of(const char* op, const Shape& x, const Window& window) {
  require(x.rank() == 4, op, ": needs images [batch, height, width, channels], got ", x);
  require(window.size_h >= 1 && window.size_w >= 1 && window.stride_h >= 1 && window.stride_w >= 1, op,
          ": needs a window and strides of at least 1, got a window of ", window.size_h, " x ", window.size_w, " with strides ",
          window.stride_h, " and ", window.stride_w);
  require(window.dilation_h == 1 && window.dilation_w == 1, op, ": needs a window without dilation, got ", window.dilation_h, " x ",
          window.dilation_w, "; conv2d() on Vars and the layers Conv2d and Conv1d take one, with at least 1");
  require_padding(op, window);
  const int64_t least_h = window.size_h - 2 * window.pad_h, least_w = window.size_w - 2 * window.pad_w;
  require(window.padding == Padding::same || (x[1] >= least_h && x[2] >= least_w), op, ": needs images of at least ", least_h, " x ",
          least_w, " for this window with", window.padding == Padding::valid ? "out" : " this", " padding, got ", x,
          "; use larger images, a smaller window or padding `same`");
  const WindowAxis h = window_axis(x[1], window.size_h, window.stride_h, window.padding, window.pad_h);
  const WindowAxis w = window_axis(x[2], window.size_w, window.stride_w, window.padding, window.pad_w);
  return {x[0], x[1], x[2], h.out, w.out, h.before, w.before, window};
}

}  // namespace sluice
