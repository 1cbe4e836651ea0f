#include "data/augmentation.h"

#include <algorithm>
#include <cmath>

#include "core/distributions.h"
#include "core/error.h"
#include "core/random.h"
#include "data/resize.h"

namespace sluice::data {

namespace {

/// Which augmentation draws: each has random words of its own, so that switching one on does not change what another does.
enum Use : uint32_t { kFlip, kPaddedCrop, kJitter, kCutout, kInceptionCrop };  // the last takes a number a try

std::array<uint32_t, 4> words(const ImageView& view, uint32_t use) {
  return philox({static_cast<uint32_t>(view.sample), static_cast<uint32_t>(view.sample >> 32), static_cast<uint32_t>(view.epoch),
                 use ^ static_cast<uint32_t>(view.epoch >> 32) << 8},
                {static_cast<uint32_t>(view.key), static_cast<uint32_t>(view.key >> 32)});
}

int64_t below(int64_t limit, uint32_t word) {
  return static_cast<int64_t>(static_cast<uint64_t>(word) * static_cast<uint64_t>(limit) >> 32);
}

double between(double low, double high, uint32_t word) { return low + (high - low) * uniform_from(word); }

double brightness_of(const uint8_t* pixel, int64_t channels) {
  return channels == 3 ? 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2] : pixel[0];
}

double mean_brightness(const Image& image) {
  double sum = 0;
  const int64_t pixels = image.height * image.width;
  for (int64_t i = 0; i < pixels; ++i) sum += brightness_of(image.pixels.data() + i * image.channels, image.channels);
  return sum / static_cast<double>(pixels);
}

uint8_t to_byte(double value) { return static_cast<uint8_t>(std::clamp(value + 0.5, 0.0, 255.0)); }

}  // namespace

Image flip(Image image, const ImageView& view) {
  if (words(view, kFlip)[0] >> 31 == 0) return image;
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t left = 0, right = image.width - 1; left < right; ++left, --right)
      std::swap_ranges(image.at(y, left), image.at(y, left) + image.channels, image.at(y, right));
  return image;
}

Image padded_crop(const Image& image, int64_t pad, const Colour& fill, const ImageView& view) {
  require(pad >= 0, "augmentation: needs pad >= 0, got ", pad);
  const auto random = words(view, kPaddedCrop);
  const int64_t down = below(2 * pad + 1, random[0]) - pad, right = below(2 * pad + 1, random[1]) - pad;
  Image result = Image::of_size(image.height, image.width, image.channels);
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      const int64_t from_y = y + down, from_x = x + right;
      const bool inside = from_y >= 0 && from_y < image.height && from_x >= 0 && from_x < image.width;
      std::copy_n(inside ? image.at(from_y, from_x) : fill.data(), image.channels, result.at(y, x));
    }
  return result;
}

Image inception_crop(const Image& image, int64_t side, const ImageView& view) {
  const double area = static_cast<double>(image.height) * static_cast<double>(image.width), steepest = std::log(4.0 / 3.0);
  for (uint32_t attempt = 0; attempt < 10; ++attempt) {
    const auto random = words(view, kInceptionCrop + attempt);
    const double part = area * between(0.08, 1, random[0]), ratio = std::exp(between(-steepest, steepest, random[1]));
    const int64_t width = std::llround(std::sqrt(part * ratio)), height = std::llround(std::sqrt(part / ratio));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const Rectangle crop{below(image.height - height + 1, random[2]), below(image.width - width + 1, random[3]), height, width};
    return resize(image, crop, side, side);
  }
  return resize_middle(image, side);
}

Image colour_jitter(Image image, double strength, const ImageView& view) {
  require(strength >= 0 && strength <= 1, "augmentation: needs a colour jitter in [0, 1], got ", strength);
  const auto random = words(view, kJitter);
  const double brightness = between(1 - strength, 1 + strength, random[0]), contrast = between(1 - strength, 1 + strength, random[1]),
               saturation = between(1 - strength, 1 + strength, random[2]);
  const double middle = (1 - contrast) * brightness * mean_brightness(image);
  for (size_t i = 0; i < image.pixels.size(); i += static_cast<size_t>(image.channels)) {
    uint8_t* pixel = image.pixels.data() + i;
    const double grey = (1 - saturation) * brightness_of(pixel, image.channels);
    for (int64_t c = 0; c < image.channels; ++c) {
      const double saturated = image.channels == 3 ? saturation * pixel[c] + grey : pixel[c];
      pixel[c] = to_byte(contrast * brightness * saturated + middle);
    }
  }
  return image;
}

Image cutout(Image image, int64_t side, const Colour& fill, const ImageView& view) {
  require(side >= 0, "augmentation: needs a cutout of side >= 0, got ", side);
  const auto random = words(view, kCutout);
  const int64_t top = below(image.height, random[0]) - side / 2, left = below(image.width, random[1]) - side / 2;
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + side, image.height); ++y)
    for (int64_t x = std::max<int64_t>(left, 0); x < std::min(left + side, image.width); ++x)
      std::copy_n(fill.data(), image.channels, image.at(y, x));
  return image;
}

Image augment(const Image& image, int64_t side, const Augmentation& augmentation, const Colour& fill, const ImageView& view) {
  Image result = augmentation.inception_crop ? inception_crop(image, side, view) : resize_middle(image, side);
  if (augmentation.pad > 0) result = padded_crop(result, augmentation.pad, fill, view);
  if (augmentation.flip) result = flip(std::move(result), view);
  if (augmentation.colour_jitter > 0) result = colour_jitter(std::move(result), augmentation.colour_jitter, view);
  if (augmentation.cutout > 0) result = cutout(std::move(result), augmentation.cutout, fill, view);
  return result;
}

}  // namespace sluice::data
