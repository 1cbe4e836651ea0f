#include <csetjmp>
#include <cstdio>
// libjpeg's headers need <cstdio>, and jerror.h jpeglib.h.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "data/decoded_size.h"

namespace sluice::data {

namespace {

/// Of Huffman codes every block of 8 x 8 pixels of the largest component takes at least one bit, in the first scan. Arithmetic codes have no
/// least length.
constexpr int64_t kMostPixelsPerByte = 512;

/// libjpeg reports through C functions, so errors leave by longjmp: no frame between `run` and libjpeg holds what needs a destructor.
struct Reports {
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf start;
  int most_scans;
  char message[JMSG_LENGTH_MAX];
};

Reports& reports_of(j_common_ptr state) { return *static_cast<Reports*>(state->client_data); }

[[noreturn]] void leave(j_common_ptr state) {
  Reports& reports = reports_of(state);
  reports.errors.format_message(state, reports.message);
  std::longjmp(reports.start, 1);
}

/// Warnings have a negative level; these are the ones after which the pixels are still what the file says.
void take_message(j_common_ptr state, int level) {
  const int code = state->err->msg_code;
  const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_BOGUS_ICC ||
                        code == JWRN_NOT_SEQUENTIAL;  // numbers that a sequential JPEG has no use for
  if (level < 0 && !harmless) leave(state);
}

void count_scans(j_common_ptr state) {
  Reports& reports = reports_of(state);
  if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number <= reports.most_scans) return;
  std::snprintf(reports.message, sizeof reports.message, "it has more than %d scans", reports.most_scans);
  std::longjmp(reports.start, 1);
}

/// A decompressor whose errors are exceptions.
class Decoder {
 public:
  Decoder(const std::string& name, const DecodeLimits& limits) : name_(name) {
    state_.err = jpeg_std_error(&reports_.errors);
    reports_.errors.error_exit = leave;
    reports_.errors.emit_message = take_message;
    reports_.progress.progress_monitor = count_scans;
    reports_.most_scans = limits.scans;
    state_.client_data = &reports_;
    run([&] { jpeg_create_decompress(&state_); });
    state_.progress = &reports_.progress;
    state_.mem->max_memory_to_use = limits.pixels * 8 + (1 << 20);  // 6 bytes a pixel where all coefficients are kept
  }
  ~Decoder() { jpeg_destroy_decompress(&state_); }
  Decoder(const Decoder&) = delete;

  jpeg_decompress_struct& state() { return state_; }

  /// Runs calls of libjpeg. `calls` may hold nothing that needs a destructor.
  template <class Calls>
  void run(const Calls& calls) {
    if (setjmp(reports_.start) == 0) {
      calls();
    } else {
      throw DataError(join(name_, ": is no whole, sound JPEG image: ", reports_.message, "; replace or remove it"));
    }
  }

 private:
  const std::string& name_;
  jpeg_decompress_struct state_{};
  Reports reports_{};
};

/// CMYK as Adobe writes it, inverted, becomes RGB.
void cmyk_to_rgb(const uint8_t* cmyk, uint8_t* rgb, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i)
    for (int c = 0; c < 3; ++c) rgb[3 * i + c] = static_cast<uint8_t>(cmyk[4 * i + c] * cmyk[4 * i + 3] / 255);
}

}  // namespace

Image decode_jpeg(const std::string& name, std::string_view bytes, const DecodeLimits& limits) {
  Decoder decoder(name, limits);
  jpeg_decompress_struct& state = decoder.state();
  decoder.run([&] {
    jpeg_mem_src(&state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&state, TRUE);
  });
  check_size(name, bytes, state.image_height, state.image_width, state.arith_code ? limits.pixels : kMostPixelsPerByte, limits);
  const bool cmyk = state.num_components == 4;
  state.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  Image image = Image::of_size(state.image_height, state.image_width, 3);
  std::vector<uint8_t> row(static_cast<size_t>(image.width) * 4);
  decoder.run([&] {
    jpeg_start_decompress(&state);
    while (state.output_scanline < state.output_height) {
      uint8_t* target = image.at(state.output_scanline, 0);
      JSAMPROW into = cmyk ? row.data() : target;
      jpeg_read_scanlines(&state, &into, 1);
      if (cmyk) cmyk_to_rgb(into, target, image.width);
    }
    jpeg_finish_decompress(&state);
  });
  return image;
}

}  // namespace sluice::data
