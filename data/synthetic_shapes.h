#pragma once
#include "data/dataset.h"

namespace sluice::data {

/// Images with a mask that says the class of each pixel, a function of the seed alone: one to four figures of random size, place and
/// colour, later ones over earlier ones, on a plain ground under noise of bytes. Class 0 is the ground, 1 a disc, 2 a square, 3 a triangle,
/// and then the same three with stripes, ever wider ones. Made of integers, so the same everywhere.
/// Inputs  "image" f32 [image_size, image_size, channels], from -2 to 2, and "mask" i32 [image_size, image_size].
/// Errors  UsageError for sizes < 1, fewer than 2 classes, more than 4 channels or a noise outside [0, 1].
class SyntheticShapes : public Dataset {
 public:
  struct Options {
    int64_t classes = 4;
    int64_t image_size = 64;
    int64_t channels = 3;
    uint64_t seed = 0;
    double noise = 0.3;  ///< its part of every pixel
    int64_t train_samples = 65536;
    int64_t validation_samples = 256;
  };
  explicit SyntheticShapes(Options options);

  const std::vector<std::string>& class_names() const { return class_names_; }
  std::vector<std::string> inputs() const override { return {"image", "mask"}; }
  int64_t size(Split split) const override;
  Tensor load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const override;

 private:
  Options options_;
  uint64_t key_;
  std::vector<std::string> class_names_;
};

}  // namespace sluice::data
