#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::data {

/// An image: bytes [height, width, channels], row-major.
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels = {};

  static Image of_size(int64_t height, int64_t width, int64_t channels) {
    return {height, width, channels, std::vector<uint8_t>(static_cast<size_t>(height * width * channels))};
  }
  uint8_t* at(int64_t y, int64_t x) { return pixels.data() + (y * width + x) * channels; }
  const uint8_t* at(int64_t y, int64_t x) const { return pixels.data() + (y * width + x) * channels; }
  bool operator==(const Image&) const = default;
};

/// A part of an image.
struct Rectangle {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

}  // namespace sluice::data
