#pragma once
#include "autograd/var.h"
#include "core/ops/window.h"

namespace sluice {

/// Convolution of images without a bias, in groups of channels where there are several; as many as channels make a depthwise one.
/// Shape   x [B, H, W, in], weight [out, size_h, size_w, in / groups] -> y [B, OH, OW, out]; see Window.
/// Dtypes  f32, f64, bf16; both alike.
/// Errors  UsageError when shapes, dtypes or the window do not fit.
Var conv2d(const Var& x, const Var& weight, const Window& window, int64_t groups = 1);

/// The transposed convolution: what conv2d's gradient makes of x, so that a convolution of y with the same weight and window has x's shape.
/// Shape   x [B, H, W, in], weight [in, KH, KW, out / groups] -> y [B, OH, OW, out]: OH = H stride_h with padding `same`, else
///         (H - 1) stride_h + KH - 2 pad_h; OW likewise.
/// Dtypes, Errors, Cost  as conv2d.
Var conv_transpose2d(const Var& x, const Var& weight, const Window& window, int64_t groups = 1);

}  // namespace sluice
