#pragma once
#include <string>
#include <string_view>

#include "data/image.h"

namespace sluice::data {

/// What a file may claim. It is checked against the header, before anything of that size is allocated, together with what the file's
/// length allows: both formats have a greatest compression.
struct DecodeLimits {
  int64_t side = 16384;
  int64_t pixels = int64_t{1} << 26;
  int scans = 100;  ///< of a progressive JPEG, each of which costs a pass over the whole image
};

/// The image in a PNG file's bytes as RGB: grey and palettes become RGB, 16 bits 8, transparency is dropped.
/// Errors  DataError, `name` (the file) first, for bytes that are no whole, sound PNG or that claim more than `limits`;
///         so is one whose pixels have colours beyond its palette.
/// Threads any.
Image decode_png(const std::string& name, std::string_view bytes, const DecodeLimits& limits = {});

/// The image in a JPEG file's bytes as RGB, also a grey or CMYK one; an orientation in its metadata is not applied.
/// Errors  DataError as above. Where libjpeg would go on with a guess (data cut off, bad codes), this is an error too.
Image decode_jpeg(const std::string& name, std::string_view bytes, const DecodeLimits& limits = {});

/// One or the other, by the first bytes. Errors  DataError also for any other kind of file.
Image decode_image(const std::string& name, std::string_view bytes, const DecodeLimits& limits = {});

}  // namespace sluice::data
