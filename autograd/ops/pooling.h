#pragma once
#include "autograd/var.h"
#include "core/ops/pooling.h"

namespace sluice {

/// Differentiable max_pool2d; keeps one byte an element of y. The gradient goes to the largest element of a window, of equal ones to the
/// first, row by row.
Var max_pool2d(const Var& x, const Window& window);
/// Differentiable average_pool2d; keeps nothing.
Var average_pool2d(const Var& x, const Window& window);
/// As many averages as asked for, whatever the size of the images: see core/ops/adaptive_pooling.h.
/// Shape   x [B, H, W, C] -> [B, height, width, C].
Var adaptive_average_pool2d(const Var& x, int64_t height, int64_t width);
/// The mean over all pixels: x [B, H, W, C] -> [B, C]. Errors  UsageError for x of another rank or without pixels.
Var global_average_pool(const Var& x);

}  // namespace sluice
