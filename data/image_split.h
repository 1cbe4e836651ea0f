#pragma once
#include "data/image_source.h"

namespace sluice::data {

/// Takes `fraction` of the training images, chosen by the seed, for validation, where the files keep none apart.
/// Errors  UsageError for a fraction outside [0, 0.5], and as checked_splits; DataError when nothing is left on one side.
ImageSplits split_by_seed(ImageSplits splits, double fraction, uint64_t seed);

}  // namespace sluice::data
