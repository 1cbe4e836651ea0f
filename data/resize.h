#pragma once
#include "data/image.h"

namespace sluice::data {

/// The part of the image, resized: bilinear when it grows; when it shrinks, every pixel is the mean of the area that it stands for,
/// weighted by a triangle that reaches into the neighbours, so that no fine pattern turns into a coarse one. Sums are of integers: the
/// result is the same on every machine.
/// Errors  UsageError for a part outside the image, or an empty part or result.
/// Cost    two passes, one a direction.
Image resize(const Image& image, Rectangle part, int64_t height, int64_t width);

/// The largest square in the middle, resized to `side`.
Image resize_middle(const Image& image, int64_t side);

}  // namespace sluice::data
