#pragma once
#include "autograd/var.h"
#include "core/ops/window.h"

namespace sluice {

/// conv2d() of a window with dilation. An image is dealt out into dilation_h x dilation_w smaller ones, each of every so-manieth pixel, which the
/// window convolves without dilation; the results are put together again.
/// Cost    that of the convolution at stride 1, of which strides take every so-manieth pixel, and four copies of the images.
/// Source  Chen et al. 2017, arXiv:1706.05587 (what it is good for).
Var dilated_conv2d(const Var& x, const Var& weight, const Window& window, int64_t groups);

}  // namespace sluice
