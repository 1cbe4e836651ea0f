#pragma once
#include <string>

#include "data/image.h"

namespace sluice::data {

/// Files as other programs write them, made by the libraries themselves.

enum class PngKind { plain, interlaced, palette, interlaced_palette, sixteen_bits };
std::string encode_png(const Image& image, PngKind kind = PngKind::plain);

enum class JpegKind { plain, progressive, cmyk, arithmetic };
/// Of 1 or 3 channels; `cmyk` writes an RGB image inverted with a key of 255, as Adobe does.
std::string encode_jpeg(const Image& image, JpegKind kind = JpegKind::plain);

std::string gzip(const std::string& bytes);

/// A header of IDX with `type` and these axes, then the elements.
std::string idx_bytes(const std::vector<uint32_t>& axes, const std::string& elements, int type = 8);

/// A smooth image, which a JPEG keeps nearly as it is.
Image smooth_image(int64_t height, int64_t width, int64_t channels);

}  // namespace sluice::data
