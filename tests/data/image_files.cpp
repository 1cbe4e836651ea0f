#include "image_files.h"

#include <cstdio>
#include <cstdlib>
// libjpeg's header needs <cstdio>.
// clang-format off
#include <jpeglib.h>
// clang-format on
#include <png.h>
#include <zlib.h>

namespace sluice::data {

std::string encode_png(const Image& image, PngKind kind) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto append = [](png_structp writer, png_bytep bytes, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(writer))->append(reinterpret_cast<char*>(bytes), count);
  };
  png_set_write_fn(png, &file, append, nullptr);
  const int bits = kind == PngKind::sixteen_bits ? 16 : 8;
  int colours = image.channels == 1 ? PNG_COLOR_TYPE_GRAY : image.channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB;
  const bool has_palette = kind == PngKind::palette || kind == PngKind::interlaced_palette,
             is_interlaced = kind == PngKind::interlaced || kind == PngKind::interlaced_palette;
  if (has_palette) colours = PNG_COLOR_TYPE_PALETTE;
  png_set_IHDR(png, info, static_cast<uint32_t>(image.width), static_cast<uint32_t>(image.height), bits, colours,
               is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_color palette[256];
  for (int i = 0; i < 256; ++i) palette[i] = {static_cast<png_byte>(i), static_cast<png_byte>(255 - i), 7};
  if (has_palette) png_set_PLTE(png, info, palette, 256);
  png_write_info(png, info);
  const int64_t row_bytes = image.width * image.channels, wide = bits / 8;
  std::vector<uint8_t> row(static_cast<size_t>(row_bytes * wide));
  const int passes = is_interlaced ? png_set_interlace_handling(png) : 1;
  for (int pass = 0; pass < passes; ++pass)
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t i = 0; i < row_bytes * wide; ++i) row[static_cast<size_t>(i)] = image.at(y, 0)[i / wide];  // 16 bits: the byte twice
      png_write_row(png, row.data());
    }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::string encode_jpeg(const Image& image, JpegKind kind) {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&state, &memory, &size);
  state.image_width = static_cast<JDIMENSION>(image.width);
  state.image_height = static_cast<JDIMENSION>(image.height);
  const bool cmyk = kind == JpegKind::cmyk;
  state.input_components = cmyk ? 4 : static_cast<int>(image.channels);
  state.in_color_space = cmyk ? JCS_CMYK : image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, 95, TRUE);
  if (kind == JpegKind::progressive) jpeg_simple_progression(&state);
  state.arith_code = kind == JpegKind::arithmetic;
  jpeg_start_compress(&state, TRUE);
  std::vector<uint8_t> row(static_cast<size_t>(image.width) * 4, 255);
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x)
      for (int64_t c = 0; c < image.channels; ++c) row[static_cast<size_t>(x * state.input_components + c)] = image.at(y, x)[c];
    JSAMPROW from = row.data();
    jpeg_write_scanlines(&state, &from, 1);
  }
  jpeg_finish_compress(&state);
  jpeg_destroy_compress(&state);
  std::string file(reinterpret_cast<char*>(memory), size);
  std::free(memory);
  return file;
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string idx_bytes(const std::vector<uint32_t>& axes, const std::string& elements, int type) {
  std::string file{'\0', '\0', static_cast<char>(type), static_cast<char>(axes.size())};
  for (const uint32_t axis : axes)
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(axis >> shift & 255);
  return file + elements;
}

Image smooth_image(int64_t height, int64_t width, int64_t channels) {
  Image image = Image::of_size(height, width, channels);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        image.at(y, x)[c] = static_cast<uint8_t>((c + 1) * 40 + 60 * y / height + (c == 1 ? 0 : 40) * x / width);
  return image;
}

}  // namespace sluice::data
