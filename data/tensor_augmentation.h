#pragma once
#include <vector>

#include "data/map_dataset.h"

namespace sluice::data {

// Functions for a MapDataset over images that lie in tensors, [H, W, C] or [H, W]:
//   MapDataset images(source, {{"image", in_turn({random_crop({.pad = 4}), random_flip(), normalisation({0.5}, {0.25})})}});
// What is random is a function of the sample's key: equal for every number of threads, another in every epoch, and alike for all inputs of a
// sample that the same function makes, as an image and its mask. It changes the training split alone. Two of one kind in one chain draw the
// same numbers.
// Threads  any.
// Errors   all throw UsageError for arguments out of range where they are made, and for other shapes or dtypes where they are called.

struct CropOptions {
  int64_t pad = 0;                ///< pixels put around the image before
  int64_t height = 0, width = 0;  ///< of the part; 0 = the image's own
  double fill = 0;                ///< of what is not there
};
/// A part at a random place; in the validation split that in the middle.
/// Dtypes  all.
/// Errors  UsageError for an image that is smaller than the part, with its padding.
/// Source  He et al. 2015, arXiv:1512.03385, section 4.2.
SampleFunction random_crop(const CropOptions& options);

/// Mirrors left and right with a probability.
/// Dtypes  all.
SampleFunction random_flip(double probability = 0.5);

struct ErasingOptions {
  double probability = 0.5;
  double least_area = 0.02, most_area = 0.33;  ///< parts of the image's area
  double steepest = 3.3;                       ///< the sides are as 1 : steepest to steepest : 1, uniform in the logarithm
  double fill = 0;
};
/// Fills a random rectangle, if one that fits is found in ten tries.
/// Dtypes  all.
/// Source  Zhong et al. 2017, arXiv:1708.04896.
SampleFunction random_erasing(const ErasingOptions& options = {});

/// Brightness, then contrast about the image's mean, each times a random number from [1 - strength, 1 + strength].
/// Dtypes  f32, f64, bf16 in [0, 1], where results are clamped: so before normalisation.
/// Errors  UsageError for a strength outside [0, 1].
SampleFunction random_colour(double brightness, double contrast);

/// (x - mean) / deviation, in both splits.
/// Shape   mean and deviation: a number for each channel, of the last axis, or one for all.
/// Dtypes  f32, f64, bf16; u8 becomes f32 without being scaled.
/// Errors  UsageError for a number that is not finite, a deviation that is not > 0, and for another number of channels.
SampleFunction normalisation(const std::vector<double>& mean, const std::vector<double>& deviation);

/// One after another.
SampleFunction in_turn(std::vector<SampleFunction> functions);

}  // namespace sluice::data
