#pragma once
#include <string>

#include "data/augmentation.h"
#include "data/dataset.h"
#include "data/image_source.h"

namespace sluice::data {

/// Of each channel, where black is 0 and white is 1.
struct Normalisation {
  std::vector<double> mean, deviation;
  bool operator==(const Normalisation&) const = default;
};

/// Mean and standard deviation over the images, each resized to side x side; over an even sample of them where they have more than 2^27
/// pixels in all. Sums are exact. The result is kept in `cache_folder` under the hash of what it depends on, and a damaged copy there is
/// replaced; an empty `cache_folder` keeps nothing. A channel of one value gets a deviation of 1 / 255.
/// Errors  UsageError for a source without images; DataError for a damaged image; ResourceError when the cache cannot be written.
Normalisation measure_normalisation(const ImageSource& source, int64_t side, const std::string& cache_folder);

/// A normalisation as text, and back. Errors  DataError naming `name` for another text.
std::string text_of(const Normalisation& normalisation);
Normalisation parse_normalisation(const std::string& text, const std::string& name);

struct ImageOptions {
  int64_t image_size = 0;  ///< side of the square images that the model takes
  uint64_t seed = 0;
  Augmentation augmentation = {};
};

/// Labelled images: "image" f32 [image_size, image_size, C], normalised, and "label" i32 []. Training images are augmented; validation
/// images are the largest square in the middle, resized.
class ImageDataset : public Dataset {
 public:
  /// Errors  UsageError for a size < 1, a normalisation of other channels, and as checked_splits.
  ImageDataset(ImageSplits splits, ImageOptions options, Normalisation normalisation);

  int64_t image_size() const { return options_.image_size; }
  int64_t channels() const { return splits_.train->channels(); }
  const std::vector<std::string>& class_names() const { return splits_.train->class_names(); }
  const Normalisation& normalisation() const { return normalisation_; }
  int32_t label(Split split, int64_t sample) const { return source(split, sample).label(sample); }
  /// The image that `load` normalises.
  Image image(Split split, int64_t epoch, int64_t sample) const;

  std::vector<std::string> inputs() const override { return {"image", "label"}; }
  int64_t size(Split split) const override;
  Tensor load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const override;

 private:
  const ImageSource& source(Split split, int64_t sample) const;

  ImageSplits splits_;
  ImageOptions options_;
  Normalisation normalisation_;
  uint64_t key_;
  Colour fill_{};
  std::vector<std::array<float, 256>> normalised_;  ///< of each byte, a channel
};

}  // namespace sluice::data
