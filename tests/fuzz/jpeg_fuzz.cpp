#include "core/error.h"
#include "data/image_decode.h"

/// Any bytes are an image within the limits, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const sluice::data::DecodeLimits limits{.side = 4096, .pixels = 1 << 18, .scans = 20};
    const auto image = sluice::data::decode_jpeg("input", {reinterpret_cast<const char*>(bytes), size}, limits);
    if (image.pixels.size() != static_cast<size_t>(image.height * image.width * 3) || image.height * image.width > limits.pixels)
      __builtin_trap();
  } catch (const sluice::DataError&) {
  }
  return 0;
}
