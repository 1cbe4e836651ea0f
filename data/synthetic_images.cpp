#include "data/synthetic_images.h"

#include <array>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace sluice::data {

namespace {

constexpr uint32_t kOfTrain = 0, kOfValidation = 1, kOfClasses = 2;

/// A whole wave in 256 steps, between 0 and 127, so that two add up to a byte.
const std::array<uint8_t, 256>& wave() {
  static const auto table = [] {
    std::array<uint8_t, 256> steps;
    for (size_t i = 0; i < steps.size(); ++i)
      steps[i] = static_cast<uint8_t>(std::lround(63.5 + 63.5 * std::sin(static_cast<double>(i) / 256 * 2 * 3.14159265358979)));
    return steps;
  }();
  return table;
}

class SyntheticImages : public ImageSource {
 public:
  SyntheticImages(const SyntheticImageOptions& options, uint32_t split, int64_t size)
      : options_(options),
        split_(split),
        size_(size),
        key_(random_key(options.seed, "synthetic images")),
        class_names_(numbered_classes(options.classes)) {}

  int64_t size() const override { return size_; }
  int64_t channels() const override { return options_.channels; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int32_t label(int64_t index) const override {
    return static_cast<int32_t>(uint64_t{words(index, 0, split_)[0]} * static_cast<uint64_t>(options_.classes) >> 32);
  }
  Image image(int64_t index) const override;
  std::string identity() const override {
    return join("synthetic ", options_.classes, " ", options_.image_size, " ", options_.channels, " ", options_.seed, " ", options_.noise,
                " ", split_, " ", size_);
  }

 private:
  std::array<uint32_t, 4> words(int64_t index, uint32_t block, uint32_t of) const {
    return philox({block, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), of},
                  {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }

  SyntheticImageOptions options_;
  uint32_t split_;
  int64_t size_;
  uint64_t key_;
  std::vector<std::string> class_names_;
};

/// One to four waves over the image's side, in steps of the wave's table a pixel with 16 bits behind the point.
uint32_t frequency(uint32_t word, int64_t side) {
  return static_cast<uint32_t>((uint64_t{1} << 24) * (4 + word % 13) / 4 / static_cast<uint64_t>(side));
}

Image SyntheticImages::image(int64_t index) const {
  const int64_t side = options_.image_size;
  const auto of_class = words(label(index), 0, kOfClasses), phases = words(label(index), 1, kOfClasses), shift = words(index, 0, split_);
  const uint32_t right = frequency(of_class[0], side), down = frequency(of_class[1], side);
  const uint32_t right_again = frequency(of_class[2], side), up = 0u - frequency(of_class[3], side);
  const auto noise = static_cast<uint32_t>(std::lround(options_.noise * 256));
  Image image = Image::of_size(side, side, options_.channels);
  const auto& steps = wave();
  std::array<uint32_t, 4> random{};
  size_t i = 0;
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x) {
      const auto across = static_cast<uint32_t>(x), along = static_cast<uint32_t>(y);
      const uint32_t first = right * across + down * along + shift[1], second = right_again * across + up * along + shift[2];
      for (int64_t c = 0; c < options_.channels; ++c, ++i) {
        if (i % 16 == 0) random = words(index, static_cast<uint32_t>(i / 16 + 1), split_);
        const uint32_t speckle = random[i / 4 % 4] >> 8 * (i % 4) & 255;
        const uint32_t pattern = steps[(first + phases[static_cast<size_t>(c)]) >> 16 & 255] + steps[second >> 16 & 255];
        image.pixels[i] = static_cast<uint8_t>(((256 - noise) * pattern + noise * speckle) >> 8);
      }
    }
  return image;
}

}  // namespace

ImageSplits synthetic_images(const SyntheticImageOptions& options) {
  require(options.classes >= 1 && options.image_size >= 1 && options.train_samples >= 1 && options.validation_samples >= 1,
          "synthetic: needs at least 1 class, pixel, training and validation sample, got ", options.classes, ", ", options.image_size, ", ",
          options.train_samples, " and ", options.validation_samples);
  require(options.channels >= 1 && options.channels <= 4, "synthetic: needs 1 to 4 channels, got ", options.channels);
  require(options.noise >= 0 && options.noise <= 1, "synthetic: needs a noise in [0, 1], got ", options.noise);
  return {std::make_shared<SyntheticImages>(options, kOfTrain, options.train_samples),
          std::make_shared<SyntheticImages>(options, kOfValidation, options.validation_samples)};
}

}  // namespace sluice::data
