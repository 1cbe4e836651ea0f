#include <png.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "data/decoded_size.h"

namespace sluice::data {

namespace {

constexpr int64_t kMostDeflation = 1032;  // 258 bytes from two bits
constexpr size_t kMostChunkBytes = size_t{1} << 23;

/// A reader over bytes in memory. libpng reports errors by longjmp: no frame between `run` and libpng holds what needs a destructor.
class Decoder {
 public:
  Decoder(const std::string& name, std::string_view bytes) : name_(name), rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, take_error, [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) png_destroy_read_struct(&png_, nullptr, nullptr);
    require<ResourceError>(info_ != nullptr, name, ": no memory to read the image");
    png_set_read_fn(png_, this, read);
  }
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;

  png_structp png() { return png_; }
  png_infop info() { return info_; }

  /// Runs calls of libpng. `calls` may hold nothing that needs a destructor.
  template <class Calls>
  void run(const Calls& calls) {
    if (setjmp(png_jmpbuf(png_)) == 0) {
      calls();
    } else {
      throw DataError(join(name_, ": is no whole, sound PNG image: ", message_, "; replace or remove it"));
    }
  }

 private:
  [[noreturn]] static void take_error(png_structp png, png_const_charp message) {
    auto* decoder = static_cast<Decoder*>(png_get_error_ptr(png));
    std::snprintf(decoder->message_, sizeof decoder->message_, "%s", message);
    png_longjmp(png, 1);
  }
  static void read(png_structp png, png_bytep into, size_t bytes) {
    std::string_view& rest = static_cast<Decoder*>(png_get_io_ptr(png))->rest_;
    if (bytes > rest.size()) png_error(png, "the file is cut off");
    std::memcpy(into, rest.data(), bytes);
    rest.remove_prefix(bytes);
  }

  const std::string& name_;
  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char message_[256] = "";
};

void turn_into_rgb(png_structp png) {
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

/// Of an image whose pixels are numbers of colours. libpng takes numbers beyond the palette for black.
Image in_colours(const std::string& name, const Image& numbers, const png_color* palette, int colours) {
  Image image = Image::of_size(numbers.height, numbers.width, 3);
  for (size_t i = 0; i < numbers.pixels.size(); ++i) {
    const int number = numbers.pixels[i];
    require<DataError>(number < colours, name, ": is no whole, sound PNG image: pixel ", i, " has colour ", number,
                       " of a palette that ends at ", colours - 1, "; replace or remove it");
    const png_color& colour = palette[number];
    const uint8_t bytes[] = {colour.red, colour.green, colour.blue};
    std::ranges::copy(bytes, image.pixels.begin() + 3 * static_cast<std::ptrdiff_t>(i));
  }
  return image;
}

}  // namespace

Image decode_png(const std::string& name, std::string_view bytes, const DecodeLimits& limits) {
  Decoder decoder(name, bytes);
  png_structp png = decoder.png();
  decoder.run([&] {
    png_set_chunk_malloc_max(png, kMostChunkBytes);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // texts, profiles: not even unpacked
    png_read_info(png, decoder.info());
  });
  const int64_t height = png_get_image_height(png, decoder.info()), width = png_get_image_width(png, decoder.info());
  const int bits = png_get_bit_depth(png, decoder.info()) * png_get_channels(png, decoder.info());
  check_size(name, bytes, height, width, std::max<int64_t>(1, kMostDeflation * 8 / bits), limits);
  png_colorp palette = nullptr;
  int colours = 0;
  const bool has_palette = png_get_color_type(png, decoder.info()) == PNG_COLOR_TYPE_PALETTE;
  if (has_palette) png_get_PLTE(png, decoder.info(), &palette, &colours);
  Image image = Image::of_size(height, width, has_palette ? 1 : 3);
  decoder.run([&] {
    has_palette ? png_set_packing(png) : turn_into_rgb(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, decoder.info());
    for (int pass = 0; pass < passes; ++pass)
      for (int64_t y = 0; y < height; ++y) png_read_row(png, image.at(y, 0), nullptr);
    png_read_end(png, nullptr);
  });
  return has_palette ? in_colours(name, image, palette, colours) : image;
}

}  // namespace sluice::data
