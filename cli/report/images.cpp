#include "cli/report/images.h"

#include <fmt/core.h>

#include <algorithm>

#include "data/loader.h"
#include "training/report/svg.h"

namespace sluice::cli {

namespace {

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) group = group << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += at + i > bytes.size() ? '=' : kDigits[group >> (18 - 6 * i) & 63];
  }
  return text;
}

/// A number of `bytes` bytes, the lowest first.
std::string little_endian(int64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 255);
  return text;
}

/// A BMP file of 24 bits a pixel: the one format that browsers show and that needs no compression. Its rows go from the bottom to the top
/// and are padded to 4 bytes. One channel is shown as grey; of more the first three as colours.
std::string bitmap(const data::Image& image) {
  constexpr int64_t kFileHeader = 14, kInfoHeader = 40, kHeaders = kFileHeader + kInfoHeader;
  std::string pixels;
  for (int64_t y = image.height - 1; y >= 0; --y) {
    for (int64_t x = 0; x < image.width; ++x)
      for (int64_t colour : {2, 1, 0}) pixels += static_cast<char>(image.at(y, x)[image.channels < 3 ? 0 : colour]);
    pixels.resize((pixels.size() + 3) / 4 * 4);
  }
  const auto size = static_cast<int64_t>(pixels.size());
  return "BM" + little_endian(kHeaders + size, 4) + little_endian(0, 4) + little_endian(kHeaders, 4) + little_endian(kInfoHeader, 4) +
         little_endian(image.width, 4) + little_endian(image.height, 4) + little_endian(1, 2) + little_endian(24, 2) + little_endian(0, 4) +
         little_endian(size, 4) + std::string(16, '\0') + pixels;  // neither resolution nor palette
}

std::string figure(const JudgedImage& image) {
  const bool right = image.prediction == image.label;
  const std::string words = right ? training::xml_text(image.label)
                                  : fmt::format("{}, is {}", training::xml_text(image.prediction), training::xml_text(image.label));
  return fmt::format(
      "<figure style=\"display:inline-block;width:100px;margin:4px;vertical-align:top;text-align:center;font-size:12px;color:{}\">"
      "<img style=\"width:84px;image-rendering:pixelated\" alt=\"{}\" "
      "src=\"data:image/bmp;base64,{}\"><figcaption>{}</figcaption></figure>\n",
      right ? "#222" : "#c0392b", training::xml_text(image.label), base64(bitmap(image.image)), words);
}

}  // namespace

std::vector<JudgedImage> judge_images(parallel::Trainer& trainer, const std::shared_ptr<const data::ImageDataset>& dataset, int64_t count,
                                      int64_t batch) {
  const auto samples = data::validation_samples(*dataset, count);
  data::ValidationLoader loader(dataset, {.batch = batch, .threads = 0}, count);
  std::vector<double> logits;
  for (int64_t number = 0; number < loader.size(); ++number) {
    const auto rows = trainer.evaluate(loader.at(number), true).output.to_vector();
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  const auto& names = dataset->class_names();
  std::vector<JudgedImage> images;
  auto row = logits.begin();
  for (const int64_t sample : samples) {
    const auto end = row + static_cast<std::ptrdiff_t>(names.size());
    const auto prediction = static_cast<size_t>(std::max_element(row, end) - row);
    const auto label = static_cast<size_t>(dataset->label(data::Split::validation, sample));
    images.push_back({dataset->image(data::Split::validation, 0, sample), names[label], names[prediction]});
    row = end;
  }
  return images;
}

std::string image_table(const std::vector<JudgedImage>& images) {
  std::string html = "<div>\n";
  for (const auto& image : images) html += figure(image);
  return html + "</div>\n";
}

}  // namespace sluice::cli
