#pragma once
#include <array>

#include "data/image.h"

namespace sluice::data {

/// One view of one sample: every augmentation is a pure function of the image and this, so that nothing depends on threads or order.
/// Samples are numbered within the training split.
struct ImageView {
  uint64_t key = 0;  ///< hash of the seed: see `random_key`
  int64_t epoch = 0, sample = 0;
};

/// The colour of what is not there, a byte a channel: the mean of the training images, which normalisation turns into about 0.
using Colour = std::array<uint8_t, 4>;

/// Mirrors left and right in half of the views.
Image flip(Image image, const ImageView& view);

/// A part of the image's own size at a random place, after `pad` pixels of `fill` were put around it. Errors  UsageError for pad < 0.
/// Source  He et al. 2015, arXiv:1512.03385, section 4.2.
Image padded_crop(const Image& image, int64_t pad, const Colour& fill, const ImageView& view);

/// A part of 8 to 100 % of the area with sides as 3 : 4 to 4 : 3, resized to side x side. The largest square in the middle where no such
/// part was found in ten tries, as in very long images.
/// Source  Szegedy et al. 2014, arXiv:1409.4842, section 6; the ratio is uniform in its logarithm, as torchvision draws it.
Image inception_crop(const Image& image, int64_t side, const ImageView& view);

/// Brightness, then contrast about the image's mean, then saturation, each times a number of [1 - strength, 1 + strength]; saturation
/// for 3 channels only. Errors  UsageError for a strength outside [0, 1].
Image colour_jitter(Image image, double strength, const ImageView& view);

/// Fills a square of `side` pixels around a random pixel, as far as it lies within the image. Errors  UsageError for side < 0.
/// Source  DeVries and Taylor 2017, arXiv:1708.04552.
Image cutout(Image image, int64_t side, const Colour& fill, const ImageView& view);

/// What is done to training images; all off by default.
struct Augmentation {
  bool inception_crop = false;  ///< instead of the square in the middle
  int64_t pad = 0;              ///< of a padded crop, in pixels of the result
  bool flip = false;
  double colour_jitter = 0;  ///< strength
  int64_t cutout = 0;        ///< side of the square, in pixels of the result
};

/// All of it in this order: crop and resize to side x side, padded crop, flip, colour jitter, cutout.
Image augment(const Image& image, int64_t side, const Augmentation& augmentation, const Colour& fill, const ImageView& view);

}  // namespace sluice::data
