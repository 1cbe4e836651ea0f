#include "data/image_dataset.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file/file.h"
#include "core/random.h"
#include "data/content_hash.h"
#include "data/resize.h"
#include "data/sealed.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostPixels = int64_t{1} << 27;

Normalisation measure(const ImageSource& source, int64_t side) {
  require(source.size() >= 1, "data: needs images to measure their mean and deviation, got none");
  const int64_t count = std::clamp<int64_t>(kMostPixels / (side * side), 1, source.size());
  const auto channels = static_cast<size_t>(source.channels());
  std::vector<uint64_t> sums(channels), squares(channels);
  for (int64_t i = 0; i < count; ++i) {
    const Image image = resize_middle(checked_image(source, i * source.size() / count), side);
    for (size_t at = 0; at < image.pixels.size(); at += channels)
      for (size_t c = 0; c < channels; ++c) {
        const uint64_t value = image.pixels[at + c];
        sums[c] += value;
        squares[c] += value * value;
      }
  }
  Normalisation result;
  const auto values = static_cast<double>(count * side * side);
  for (size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums[c]) / values, square = static_cast<double>(squares[c]) / values;
    result.mean.push_back(mean / 255);
    result.deviation.push_back(std::sqrt(std::max(1.0, square - mean * mean)) / 255);
  }
  return result;
}

/// Can be used for images of so many channels.
bool is_sound(const Normalisation& normalisation, int64_t channels) {
  const auto count = static_cast<size_t>(channels);
  return normalisation.mean.size() == count && normalisation.deviation.size() == count &&
         std::ranges::all_of(normalisation.mean, [](double mean) { return std::isfinite(mean); }) &&
         std::ranges::all_of(normalisation.deviation, [](double deviation) { return deviation > 0 && std::isfinite(deviation); });
}

}  // namespace

std::string text_of(const Normalisation& normalisation) {
  return nlohmann::json{{"mean", normalisation.mean}, {"deviation", normalisation.deviation}}.dump();
}

Normalisation parse_normalisation(const std::string& text, const std::string& name) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {json.at("mean"), json.at("deviation")};
  } catch (const nlohmann::json::exception& error) {
    throw DataError(join(name, ": needs the mean and deviation of the training images: ", error.what()));
  }
}

Normalisation measure_normalisation(const ImageSource& source, int64_t side, const std::string& cache_folder) {
  require(side >= 1, "data: needs an image size of at least 1, got ", side);
  if (cache_folder.empty()) return measure(source, side);
  constexpr std::string_view kKind = "sluice-normalisation\n";
  const fs::path path = fs::path(cache_folder) / (ContentHash().add(source.identity()).add(std::to_string(side)).text() + ".normalisation");
  try {
    const std::string bytes = fs::exists(path) ? read_file(path) : "";
    if (const auto text = unsealed(kKind, bytes)) return parse_normalisation(std::string(*text), path.string());
  } catch (const DataError&) {
    // A damaged copy of what can be made again is no reason to stop.
  }
  Normalisation measured = measure(source, side);
  write_atomically(path, sealed(kKind, text_of(measured)));
  return measured;
}

ImageDataset::ImageDataset(ImageSplits splits, ImageOptions options, Normalisation normalisation)
    : splits_(checked_splits(std::move(splits))),
      options_(options),
      normalisation_(std::move(normalisation)),
      key_(random_key(options.seed, "image augmentation")),
      normalised_(static_cast<size_t>(channels())) {
  require(options_.image_size >= 1, "data: needs an image size of at least 1, got ", options_.image_size);
  require(channels() <= static_cast<int64_t>(fill_.size()), "data: needs images of at most ", fill_.size(), " channels, got ", channels());
  require(is_sound(normalisation_, channels()), "data: needs a finite mean and a finite deviation above 0 for each of ", channels(),
          " channels, got ", text_of(normalisation_));
  for (size_t c = 0; c < normalised_.size(); ++c) {
    fill_[c] = static_cast<uint8_t>(std::clamp(std::lround(normalisation_.mean[c] * 255), 0L, 255L));
    for (size_t byte = 0; byte < 256; ++byte)
      normalised_[c][byte] = static_cast<float>((static_cast<double>(byte) / 255 - normalisation_.mean[c]) / normalisation_.deviation[c]);
  }
}

int64_t ImageDataset::size(Split split) const {
  if (split == Split::train) return splits_.train->size();
  return splits_.validation ? splits_.validation->size() : 0;
}

const ImageSource& ImageDataset::source(Split split, int64_t sample) const {
  require(sample >= 0 && sample < size(split), "data: needs a sample 0..", size(split) - 1, ", got ", sample);
  return split == Split::train ? *splits_.train : *splits_.validation;
}

Image ImageDataset::image(Split split, int64_t epoch, int64_t sample) const {
  const Image image = checked_image(source(split, sample), sample);
  if (split == Split::validation) return resize_middle(image, options_.image_size);
  return augment(image, options_.image_size, options_.augmentation, fill_, {key_, epoch, sample});
}

Tensor ImageDataset::load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const {
  require(input == "image" || input == "label", "data: the model asks for input '", input, "'; images have image, label");
  const auto rows = static_cast<int64_t>(samples.size());
  if (input == "label") {
    const Tensor result = empty({rows}, DType::i32);
    std::transform(samples.begin(), samples.end(), result.data<int32_t>(), [&](int64_t sample) { return label(split, sample); });
    return result;
  }
  const Tensor result = empty({rows, image_size(), image_size(), channels()});
  float* out = result.data<float>();
  for (const int64_t sample : samples) {
    const Image image = this->image(split, epoch, sample);
    for (size_t at = 0; at < image.pixels.size(); at += normalised_.size())
      for (size_t c = 0; c < normalised_.size(); ++c) *out++ = normalised_[c][image.pixels[at + c]];
  }
  return result;
}

}  // namespace sluice::data
