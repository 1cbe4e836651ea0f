#include "data/image_decode.h"

#include "core/error.h"

namespace sluice::data {

Image decode_image(const std::string& name, std::string_view bytes, const DecodeLimits& limits) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(name, bytes, limits);
  require<DataError>(bytes.starts_with("\xff\xd8\xff"), name, ": is neither a JPEG nor a PNG image (its first bytes differ)",
                     bytes.empty() ? ": the file is empty" : "", "; convert it or remove it");
  return decode_jpeg(name, bytes, limits);
}

}  // namespace sluice::data
