#include "data/synthetic_shapes.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/random.h"

namespace sluice::data {

namespace {

constexpr int64_t kForms = 3, kMostFigures = 4;
constexpr uint32_t kFirstOfNoise = 16;  // block of random words; those before say what the figures are

using Colour = std::array<int64_t, 4>;

struct Figure {
  int64_t label, x, y, radius;
  Colour colour;

  bool covers(int64_t column, int64_t row) const {
    const int64_t across = column - x, down = row - y;
    switch ((label - 1) % kForms) {
      case 0:
        return across * across + down * down <= radius * radius;
      case 1:
        return std::max(std::abs(across), std::abs(down)) * 8 <= radius * 7;
      default:
        return std::abs(down) <= radius && std::abs(across) * 2 <= down + radius;
    }
  }
  /// Of a pixel that it covers: the figures after the first three have stripes.
  int64_t brightness(int64_t column, int64_t row, int64_t channel) const {
    const int64_t stripe = (label - 1) / kForms, full = colour[static_cast<size_t>(channel)];
    return stripe > 0 && (column + row) / stripe % 2 == 1 ? full / 2 : full;
  }
};

/// One sample's random words, and what they say is to be seen.
class Scene {
 public:
  Scene(const SyntheticShapes::Options& options, uint64_t key, Split split, int64_t sample)
      : key_(key), sample_(sample), split_(split == Split::train ? 0 : 1) {
    const auto below = [](uint32_t word, int64_t limit) {
      return static_cast<int64_t>(uint64_t{word} * static_cast<uint64_t>(limit) >> 32);
    };
    const int64_t side = options.image_size, least = std::max<int64_t>(1, side / 8);
    const auto first = words(0), ground = words(1);
    for (size_t c = 0; c < ground_.size(); ++c) ground_[c] = 40 + below(ground[c], 80);
    count_ = 1 + below(first[0], kMostFigures);
    for (int64_t i = 0; i < count_; ++i) {
      const auto place = words(static_cast<uint32_t>(2 + 2 * i)), paint = words(static_cast<uint32_t>(3 + 2 * i));
      Figure& figure = figures_[static_cast<size_t>(i)];
      figure = {
          1 + below(place[0], options.classes - 1), below(place[1], side), below(place[2], side), least + below(place[3], least + 1), {}};
      for (size_t c = 0; c < ground_.size(); ++c) figure.colour[c] = ground_[c] + 60 + below(paint[c], 76);
    }
  }

  /// The uppermost figure at a pixel; null where there is the ground.
  const Figure* at(int64_t column, int64_t row) const {
    for (int64_t i = count_ - 1; i >= 0; --i)
      if (figures_[static_cast<size_t>(i)].covers(column, row)) return &figures_[static_cast<size_t>(i)];
    return nullptr;
  }
  int64_t ground(int64_t channel) const { return ground_[static_cast<size_t>(channel)]; }

  std::array<uint32_t, 4> words(uint32_t block) const {
    return philox({block, static_cast<uint32_t>(sample_), static_cast<uint32_t>(sample_ >> 32), split_},
                  {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }

 private:
  uint64_t key_;
  int64_t sample_;
  uint32_t split_;
  Colour ground_{};
  int64_t count_ = 0;
  std::array<Figure, kMostFigures> figures_{};
};

void draw_mask(const Scene& scene, int64_t side, int32_t* mask) {
  for (int64_t row = 0; row < side; ++row)
    for (int64_t column = 0; column < side; ++column) {
      const Figure* figure = scene.at(column, row);
      *mask++ = figure ? static_cast<int32_t>(figure->label) : 0;
    }
}

void draw_image(const Scene& scene, const SyntheticShapes::Options& options, float* image) {
  const auto noise = static_cast<int64_t>(std::lround(options.noise * 256));
  std::array<uint32_t, 4> random{};
  uint32_t i = 0;
  for (int64_t row = 0; row < options.image_size; ++row)
    for (int64_t column = 0; column < options.image_size; ++column) {
      const Figure* figure = scene.at(column, row);
      for (int64_t channel = 0; channel < options.channels; ++channel, ++i) {
        if (i % 16 == 0) random = scene.words(kFirstOfNoise + i / 16);
        const int64_t speckle = random[i / 4 % 4] >> 8 * (i % 4) & 255;
        const int64_t pattern = figure ? figure->brightness(column, row, channel) : scene.ground(channel);
        const int64_t byte = ((256 - noise) * pattern + noise * speckle) >> 8;
        *image++ = static_cast<float>(byte - 128) / 64;
      }
    }
}

std::vector<std::string> names_of(int64_t classes) {
  const std::array<std::string, kForms> forms = {"disc", "square", "triangle"};
  std::vector<std::string> names = {"ground"};
  for (int64_t label = 1; label < classes; ++label) {
    const int64_t stripe = (label - 1) / kForms;
    names.push_back(forms[static_cast<size_t>((label - 1) % kForms)] + (stripe > 0 ? join(" with stripes of ", stripe) : ""));
  }
  return names;
}

}  // namespace

SyntheticShapes::SyntheticShapes(Options options) : options_(options), key_(random_key(options.seed, "synthetic shapes")) {
  require(options.classes >= 2, "synthetic: needs at least 2 classes of pixels, the ground and a figure, got ", options.classes);
  require(options.image_size >= 1 && options.train_samples >= 1 && options.validation_samples >= 1,
          "synthetic: needs at least 1 pixel, training and validation sample, got ", options.image_size, ", ", options.train_samples,
          " and ", options.validation_samples);
  require(options.channels >= 1 && options.channels <= 4, "synthetic: needs 1 to 4 channels, got ", options.channels);
  require(options.noise >= 0 && options.noise <= 1, "synthetic: needs a noise in [0, 1], got ", options.noise);
  class_names_ = names_of(options.classes);
}

int64_t SyntheticShapes::size(Split split) const { return split == Split::train ? options_.train_samples : options_.validation_samples; }

Tensor SyntheticShapes::load(const std::string& input, Split split, int64_t, std::span<const int64_t> samples) const {
  require(input == "image" || input == "mask", "data: the model asks for input '", input, "'; images with masks have image, mask");
  const int64_t side = options_.image_size, rows = static_cast<int64_t>(samples.size()), pixels = side * side;
  const bool is_mask = input == "mask";
  const Tensor result = is_mask ? empty({rows, side, side}, DType::i32) : empty({rows, side, side, options_.channels});
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t sample = samples[static_cast<size_t>(row)];
    require(sample >= 0 && sample < size(split), "data: needs a sample 0..", size(split) - 1, ", got ", sample);
    const Scene scene(options_, key_, split, sample);
    if (is_mask)
      draw_mask(scene, side, result.data<int32_t>() + row * pixels);
    else
      draw_image(scene, options_, result.data<float>() + row * pixels * options_.channels);
  }
  return result;
}

}  // namespace sluice::data
