#include "data/resize.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace sluice::data {

namespace {

constexpr int kWeightBits = 16;

/// For every pixel of one axis of the result: the first source pixel that it is made of, and the weights of that and the next ones.
struct Weights {
  int64_t reach;  ///< weights a pixel
  std::vector<int64_t> first;
  std::vector<int32_t> of;  ///< [result, reach], each row sums to 2^kWeightBits
};

/// One row of weights: a triangle around `centre`, in units of source pixels, over the pixels that exist.
void fill_row(Weights& weights, int64_t row, double centre, double half_width, int64_t source) {
  const int64_t first = std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre - half_width + 0.5)), 0, source - weights.reach);
  std::vector<double> triangle(static_cast<size_t>(weights.reach));
  double sum = 0;
  for (int64_t i = 0; i < weights.reach; ++i) {
    const double distance = std::abs(static_cast<double>(first + i) + 0.5 - centre) / half_width;
    sum += triangle[static_cast<size_t>(i)] = std::max(0.0, 1 - distance);
  }
  weights.first[static_cast<size_t>(row)] = first;
  double before = 0;
  int64_t given = 0;  // rounding the running sum makes every row sum up exactly, so an image of one colour keeps it
  for (int64_t i = 0; i < weights.reach; ++i) {
    before += triangle[static_cast<size_t>(i)] / sum;
    const int64_t rounded = i + 1 < weights.reach ? std::llround(before * (1 << kWeightBits)) : 1 << kWeightBits;
    weights.of[static_cast<size_t>(row * weights.reach + i)] = static_cast<int32_t>(rounded - given);
    given = rounded;
  }
}

Weights weights_for(int64_t source, int64_t result) {
  const double scale = static_cast<double>(source) / static_cast<double>(result), half_width = std::max(1.0, scale);
  const auto reach = std::min(source, static_cast<int64_t>(std::ceil(half_width)) * 2 + 1);
  Weights weights{reach, std::vector<int64_t>(static_cast<size_t>(result)), std::vector<int32_t>(static_cast<size_t>(result * reach))};
  for (int64_t i = 0; i < result; ++i) fill_row(weights, i, (static_cast<double>(i) + 0.5) * scale, half_width, source);
  return weights;
}

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

Image resize_across(const Image& image, Rectangle part, int64_t width) {
  const Weights weights = weights_for(part.width, width);
  const int64_t channels = image.channels;
  Image result = Image::of_size(part.height, width, channels);
  uint8_t* out = result.pixels.data();
  for (int64_t y = 0; y < part.height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* from = image.at(part.top + y, part.left + weights.first[static_cast<size_t>(x)]);
      const int32_t* of = weights.of.data() + x * weights.reach;
      for (int64_t c = 0; c < channels; ++c) {
        int32_t sum = kHalf;
        for (int64_t i = 0; i < weights.reach; ++i) sum += of[i] * from[i * channels + c];
        *out++ = static_cast<uint8_t>(sum >> kWeightBits);
      }
    }
  return result;
}

Image resize_down(const Image& image, int64_t height) {
  const Weights weights = weights_for(image.height, height);
  Image result = Image::of_size(height, image.width, image.channels);
  std::vector<int32_t> sums(static_cast<size_t>(image.width * image.channels));
  for (int64_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t i = 0; i < weights.reach; ++i) {
      const uint8_t* from = image.at(weights.first[static_cast<size_t>(y)] + i, 0);
      const int32_t weight = weights.of[static_cast<size_t>(y * weights.reach + i)];
      for (size_t k = 0; k < sums.size(); ++k) sums[k] += weight * from[k];
    }
    uint8_t* out = result.at(y, 0);
    for (const int32_t sum : sums) *out++ = static_cast<uint8_t>(sum >> kWeightBits);
  }
  return result;
}

}  // namespace

Image resize(const Image& image, Rectangle part, int64_t height, int64_t width) {
  const bool inside = part.top >= 0 && part.left >= 0 && part.height >= 1 && part.width >= 1 && part.top + part.height <= image.height &&
                      part.left + part.width <= image.width;
  require(inside, "resize: needs a part inside the image of ", image.height, " x ", image.width, ", got ", part.height, " x ", part.width,
          " at ", part.top, ", ", part.left);
  require(height >= 1 && width >= 1, "resize: needs a result of at least 1 x 1, got ", height, " x ", width);
  return resize_down(resize_across(image, part, width), height);
}

Image resize_middle(const Image& image, int64_t side) {
  if (image.height == side && image.width == side) return image;
  const int64_t square = std::min(image.height, image.width);
  return resize(image, {(image.height - square) / 2, (image.width - square) / 2, square, square}, side, side);
}

}  // namespace sluice::data
