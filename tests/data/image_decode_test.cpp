#include "data/image_decode.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <cstdlib>

#include "core/error.h"
#include "expect_error.h"
#include "image_files.h"

namespace sluice::data {
namespace {

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * int64_t{1024};
}

int largest_difference(const Image& a, const Image& b) {
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  return largest;
}

/// A PNG whose header says another size, with the checksum that belongs to it.
std::string with_png_size(std::string png, uint32_t width, uint32_t height) {
  for (size_t i = 0; i < 4; ++i) {
    png[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    png[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  const auto sum = static_cast<uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(png.data() + 12), 17));
  for (size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
  return png;
}

/// A JPEG whose frame header says another size.
std::string with_jpeg_size(std::string jpeg, uint16_t width, uint16_t height) {
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg[frame + 5] = static_cast<char>(height >> 8);
  jpeg[frame + 6] = static_cast<char>(height);
  jpeg[frame + 7] = static_cast<char>(width >> 8);
  jpeg[frame + 8] = static_cast<char>(width);
  return jpeg;
}

TEST(PngImage, ComesBackAsItWas) {
  const Image image = smooth_image(13, 7, 3);
  for (const PngKind kind : {PngKind::plain, PngKind::interlaced, PngKind::sixteen_bits})
    EXPECT_EQ(decode_image("a.png", encode_png(image, kind)), image);
}

TEST(PngImage, OfGreyPaletteOrTransparentPixelsBecomesRgb) {
  const Image grey{1, 2, 1, {10, 200}};
  EXPECT_EQ(decode_png("a.png", encode_png(grey)).pixels, (std::vector<uint8_t>{10, 10, 10, 200, 200, 200}));
  EXPECT_EQ(decode_png("a.png", encode_png(grey, PngKind::palette)).pixels, (std::vector<uint8_t>{10, 245, 7, 200, 55, 7}));
  const Image transparent{1, 2, 4, {1, 2, 3, 0, 4, 5, 6, 128}};
  EXPECT_EQ(decode_png("a.png", encode_png(transparent)).pixels, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
}

std::string big_endian(uint32_t number) {
  std::string bytes(4, '\0');
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(number >> (24 - 8 * i));
  return bytes;
}

std::string png_chunk(const std::string& kind, const std::string& content) {
  const std::string summed = kind + content;
  return big_endian(static_cast<uint32_t>(content.size())) + summed +
         big_endian(static_cast<uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()))));
}

/// One row of `width` pixels, each a number of `bits` bits, over a palette of three bytes a colour.
std::string palette_png(uint32_t width, char bits, const std::string& palette, const std::string& row) {
  using namespace std::string_literals;
  const std::string raw = "\0"s + row;  // no filter
  std::string packed(100, '\0');
  uLongf size = packed.size();
  ::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()), raw.size());
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big_endian(width) + big_endian(1) + bits + "\3\0\0\0"s) + png_chunk("PLTE", palette) +
         png_chunk("IDAT", packed.substr(0, size)) + png_chunk("IEND", "");
}

TEST(PngImage, OfAPaletteHasItsColoursWhateverTheBits) {
  const Image numbers = smooth_image(13, 7, 1), colours = decode_png("a.png", encode_png(numbers, PngKind::interlaced_palette));
  ASSERT_EQ(colours.pixels.size(), numbers.pixels.size() * 3);
  for (size_t i = 0; i < numbers.pixels.size(); ++i) EXPECT_EQ(colours.pixels[3 * i], numbers.pixels[i]);
  const std::vector<uint8_t> last_and_first{'d', 'e', 'f', 'a', 'b', 'c'};
  EXPECT_EQ(decode_png("a.png", palette_png(2, 1, "abcdef", "\x80")).pixels, last_and_first);
  EXPECT_EQ(decode_png("a.png", palette_png(2, 2, "abcdef", "\x40")).pixels, last_and_first);
  EXPECT_EQ(decode_png("a.png", palette_png(2, 4, "abcdef", "\x10")).pixels, last_and_first);
}

/// Such pixels were black.
TEST(PngImage, WithColoursBeyondItsPaletteIsRefused) {
  for (const auto& [bits, row] : {std::pair(2, std::string("\x20")), {4, std::string("\x02")}, {8, std::string("\1\2")}})
    expect_error<DataError>([&] { decode_png("dir/a.png", palette_png(2, static_cast<char>(bits), "abcdef", row)); },
                            {"dir/a.png: is no whole, sound PNG", "colour 2", "ends at 1", "replace"});
}

TEST(JpegImage, ComesBackNearlyAsItWas) {
  const Image image = smooth_image(33, 50, 3);
  for (const JpegKind kind : {JpegKind::plain, JpegKind::progressive, JpegKind::cmyk, JpegKind::arithmetic}) {
    const Image decoded = decode_image("a.jpg", encode_jpeg(image, kind));
    ASSERT_EQ(decoded.pixels.size(), image.pixels.size());
    EXPECT_LE(largest_difference(decoded, image), 6) << static_cast<int>(kind);
  }
}

TEST(JpegImage, OfGreyBecomesRgb) {
  const Image decoded = decode_jpeg("a.jpg", encode_jpeg({8, 8, 1, std::vector<uint8_t>(64, 90)}));
  EXPECT_EQ(decoded, (Image{8, 8, 3, std::vector<uint8_t>(192, 90)}));
}

/// It has fewer bytes than Huffman codes can have for its pixels.
TEST(JpegImage, OfOneColourInArithmeticCodesIsRead) {
  const Image white{1000, 1000, 1, std::vector<uint8_t>(1'000'000, 255)};
  const std::string jpeg = encode_jpeg(white, JpegKind::arithmetic);
  EXPECT_LT(jpeg.size(), white.pixels.size() / 512);
  EXPECT_EQ(decode_jpeg("a.jpg", jpeg).pixels, std::vector<uint8_t>(3'000'000, 255));
}

/// Some programs leave the three bytes behind a scan's components 0, which only a progressive JPEG needs: its pixels are whole.
TEST(JpegImage, WithoutTheNumbersThatOnlyProgressiveOnesNeedIsRead) {
  const std::string whole = encode_jpeg(smooth_image(33, 50, 3));
  std::string zeros = whole;
  const size_t scan = whole.find("\xff\xda"), numbers = scan + 5 + 2 * static_cast<size_t>(whole[scan + 4]);
  ASSERT_EQ(whole[numbers + 1], 63);
  zeros[numbers + 1] = 0;
  EXPECT_EQ(decode_jpeg("a.jpg", zeros), decode_jpeg("a.jpg", whole));
}

TEST(Image, CutOffAnywhereIsAnErrorThatNamesTheFile) {
  const Image image = smooth_image(40, 40, 3);
  const std::string png = encode_png(image);
  for (size_t length = 0; length < png.size(); ++length)
    expect_error<DataError>([&] { decode_image("dir/a.png", png.substr(0, length)); }, {"dir/a.png: "});
  for (const JpegKind kind : {JpegKind::plain, JpegKind::progressive}) {
    const std::string jpeg = encode_jpeg(image, kind);
    for (size_t length = 0; length + 2 < jpeg.size(); ++length)  // the last two bytes only say that this is the end
      expect_error<DataError>([&] { decode_image("dir/a.jpg", jpeg.substr(0, length)); }, {"dir/a.jpg: "});
  }
}

TEST(Image, CutInHalfSaysThatItIsNotWhole) {
  const std::string jpeg = encode_jpeg(smooth_image(64, 64, 3)), png = encode_png(smooth_image(64, 64, 3));
  expect_error<DataError>([&] { decode_image("a.jpg", jpeg.substr(0, jpeg.size() / 2)); },
                          {"no whole, sound JPEG", "Premature end", "replace"});
  expect_error<DataError>([&] { decode_image("a.png", png.substr(0, png.size() / 2)); }, {"no whole, sound PNG", "cut off", "replace"});
}

TEST(Image, WithADamagedByteIsAnErrorOrAnotherImageOfTheSameSize) {
  const Image image = smooth_image(24, 24, 3);
  for (const std::string& whole : {encode_png(image), encode_jpeg(image), encode_jpeg(image, JpegKind::progressive)})
    for (size_t at = 8; at < whole.size(); ++at)
      for (const int flip : {1, 128}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ flip);
        try {
          const Image decoded = decode_image("a", damaged, {.pixels = 1 << 16});
          EXPECT_EQ(decoded.pixels.size(), static_cast<size_t>(decoded.height * decoded.width * 3));
        } catch (const DataError&) {
        }
      }
}

TEST(Image, ThatClaimsTooMuchIsRefusedBeforeMemoryIsTaken) {
  const std::string png = encode_png(smooth_image(8, 8, 3)), jpeg = encode_jpeg(smooth_image(8, 8, 3));
  const int64_t before = peak_bytes();
  expect_error<DataError>([&] { decode_image("bomb.png", with_png_size(png, 65535, 65535)); }, {"bomb.png: claims 65535 x 65535", "16384"});
  expect_error<DataError>([&] { decode_image("bomb.jpg", with_jpeg_size(jpeg, 65500, 65500)); }, {"bomb.jpg: claims 65500 x 65500"});
  expect_error<DataError>([&] { decode_image("bomb.png", with_png_size(png, 8000, 8000)); }, {"8000 x 8000", "bytes cannot hold"});
  expect_error<DataError>([&] { decode_image("bomb.jpg", with_jpeg_size(jpeg, 8000, 8000)); }, {"8000 x 8000", "bytes cannot hold"});
  EXPECT_LT(peak_bytes() - before, 8 << 20);
}

TEST(Image, WithMoreScansThanAllowedIsRefused) {
  const std::string jpeg = encode_jpeg(smooth_image(16, 16, 3), JpegKind::progressive);
  expect_error<DataError>([&] { decode_jpeg("a.jpg", jpeg, {.scans = 2}); }, {"a.jpg", "more than 2 scans"});
}

TEST(Image, ThatIsNoneIsNamed) {
  expect_error<DataError>([] { decode_image("notes.jpg", "These are notes."); }, {"notes.jpg: is neither a JPEG nor a PNG", "remove it"});
  expect_error<DataError>([] { decode_image("empty.png", ""); }, {"empty.png", "the file is empty"});
}

}  // namespace
}  // namespace sluice::data
