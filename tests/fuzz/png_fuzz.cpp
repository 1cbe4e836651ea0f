#include <zlib.h>

#include "core/error.h"
#include "data/image_decode.h"

namespace {

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// Gives every whole chunk (length, name, data, checksum) the checksum of its name and data, as far as lengths lead from one to the next.
void repair_checksums(uint8_t* bytes, size_t size) {
  for (size_t chunk = 8; chunk + 12 <= size;) {
    const size_t length = big_endian(bytes + chunk);
    if (length > size - chunk - 12) return;
    const auto sum = static_cast<uint32_t>(crc32(0, bytes + chunk + 4, static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; ++i) bytes[chunk + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    chunk += 12 + length;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t most);

/// Mutates what lies behind the checksums too: without repair, nearly every input would end at the first of them.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(bytes, size, most);
  if (seed % 4 != 0) repair_checksums(bytes, size);
  return size;
}

/// Any bytes are an image within the limits, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const sluice::data::DecodeLimits limits{.side = 4096, .pixels = 1 << 18};
    const auto image = sluice::data::decode_png("input", {reinterpret_cast<const char*>(bytes), size}, limits);
    if (image.pixels.size() != static_cast<size_t>(image.height * image.width * 3) || image.height * image.width > limits.pixels)
      __builtin_trap();
  } catch (const sluice::DataError&) {
  }
  return 0;
}
