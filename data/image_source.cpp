#include "data/image_source.h"

#include <algorithm>
#include <sstream>

#include "core/error.h"
#include "core/file/byte_order_mark.h"
#include "core/file/file.h"
#include "core/utf8.h"
#include "data/content_hash.h"

namespace sluice::data {

namespace {

std::string_view bytes_of(const std::vector<uint8_t>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

std::string class_difference(const std::vector<std::string>& training, const std::vector<std::string>& other, const std::string& where) {
  if (training == other) return "";
  const auto at = static_cast<size_t>(std::ranges::mismatch(training, other).in1 - training.begin());
  const auto name = [at](const std::vector<std::string>& names) { return at < names.size() ? join("'", names[at], "'") : "none"; };
  return join("class ", at, " is ", name(training), " in training and ", name(other), " ", where);
}

ImageSplits checked_splits(ImageSplits splits) {
  require(splits.train != nullptr, "images: needs a source of images to train on, got a null pointer");
  if (!splits.validation) return splits;
  require(splits.validation->channels() == splits.train->channels(), "images: needs validation images of ", splits.train->channels(),
          " channels, as the training images have, got ", splits.validation->channels());
  const std::string other = class_difference(splits.train->class_names(), splits.validation->class_names(), "in validation");
  require(other.empty(), "images: needs the classes of the training images, in their order, in the validation split; ", other);
  return splits;
}

Image checked_image(const ImageSource& source, int64_t index) {
  Image image = source.image(index);
  const bool is_sound = image.height >= 1 && image.width >= 1 && image.channels == source.channels() &&
                        image.pixels.size() == static_cast<size_t>(image.height * image.width * image.channels);
  require(is_sound, "images: needs a source of images of its ", source.channels(), " channels with a byte a pixel and channel, got ",
          image.height, " x ", image.width, " x ", image.channels, " in ", image.pixels.size(), " bytes for image ", index,
          "; see ImageSource::channels() and image()");
  return image;
}

ImageArray::ImageArray(int64_t height, int64_t width, int64_t channels, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
                       std::vector<std::string> class_names)
    : height_(height),
      width_(width),
      channels_(channels),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      class_names_(std::move(class_names)) {
  const auto needed = static_cast<uint64_t>(size() * height * width * channels);
  require(pixels_.size() == needed, "images: needs ", needed, " bytes for ", size(), " images of ", height, " x ", width, " x ", channels,
          ", got ", pixels_.size());
  for (const uint8_t label : labels_)
    require(label < class_names_.size(), "images: needs labels below ", class_names_.size(), ", got ", int{label});
}

Image ImageArray::image(int64_t index) const {
  const int64_t bytes = height_ * width_ * channels_;
  const auto first = pixels_.begin() + index * bytes;
  return {height_, width_, channels_, {first, first + bytes}};
}

std::string ImageArray::identity() const {
  return ContentHash().add(join(height_, " ", width_, " ", channels_)).add(bytes_of(pixels_)).add(bytes_of(labels_)).text();
}

std::vector<std::string> read_class_names(const std::string& path) {
  const std::string file = read_file(path), text(without_byte_order_mark(file));
  const size_t invalid = first_invalid_utf8(text);
  require<DataError>(invalid == std::string::npos, path, ": needs a class name a line, in UTF-8; byte ", invalid, " is not");
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    names.push_back(line);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  require<DataError>(!names.empty(), path, ": needs a class name a line, but is empty");
  return names;
}

std::vector<std::string> numbered_classes(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace sluice::data
