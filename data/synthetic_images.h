#pragma once
#include "data/image_source.h"

namespace sluice::data {

/// Images for tests and benchmarks, a function of the seed alone: of each class two waves that cross, with a direction, a frequency and
/// colours of its own, shifted as a whole from image to image, under noise of bytes. Made of integers, so the same everywhere.
struct SyntheticImageOptions {
  int64_t classes = 10;
  int64_t image_size = 32;
  int64_t channels = 3;
  uint64_t seed = 0;
  double noise = 0.3;  ///< its part of every pixel
  int64_t train_samples = 65536;
  int64_t validation_samples = 256;
};

/// Errors  UsageError for sizes < 1, more than 4 channels or a noise outside [0, 1].
ImageSplits synthetic_images(const SyntheticImageOptions& options);

}  // namespace sluice::data
