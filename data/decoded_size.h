#pragma once
#include "core/error.h"
#include "data/image_decode.h"

namespace sluice::data {

/// Refuses a size that a header claims: too large for the limits, or too large for a file of this length, of which a byte makes
/// `most_pixels_per_byte` at best.
inline void check_size(const std::string& name, std::string_view bytes, int64_t height, int64_t width, int64_t most_pixels_per_byte,
                       const DecodeLimits& limits) {
  const auto length = static_cast<int64_t>(bytes.size());
  require<DataError>(height >= 1 && width >= 1 && height <= limits.side && width <= limits.side && height * width <= limits.pixels, name,
                     ": claims ", width, " x ", height, " pixels; at most ", limits.side, " a side and ", limits.pixels,
                     " in all are read: make the image smaller or remove it");
  require<DataError>(height * width <= length * most_pixels_per_byte, name, ": claims ", width, " x ", height, " pixels, which its ",
                     length, " bytes cannot hold: the file is cut off or damaged; replace or remove it");
}

}  // namespace sluice::data
