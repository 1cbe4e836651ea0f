#include "data/idx.h"

#include <algorithm>

#include "core/error.h"
#include "core/file/file.h"
#include "data/gunzip.h"
#include "data/readable_path.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 32;
constexpr int kBytesType = 8, kMostAxes = 4;

uint32_t big_endian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

struct Header {
  std::vector<int64_t> shape;
  size_t bytes, file_bytes;  ///< of the header, and of the whole file
};

constexpr size_t kLongestHeader = 4 + 4 * kMostAxes;

Header parse_header(const std::string& name, std::string_view bytes) {
  const std::string cure = "; is it the right file?";
  require<DataError>(bytes.size() >= 4, name, ": needs an IDX file, got only ", bytes.size(), " bytes", cure);
  require<DataError>(bytes[0] == 0 && bytes[1] == 0, name, ": is no IDX file (its first two bytes are not 0)", cure);
  const int type = static_cast<uint8_t>(bytes[2]), axes = static_cast<uint8_t>(bytes[3]);
  require<DataError>(type == kBytesType, name, ": byte 2 needs type 8 (bytes), got ", type, cure);
  require<DataError>(axes >= 1 && axes <= kMostAxes, name, ": byte 3 needs 1 to ", kMostAxes, " axes, got ", axes, cure);
  Header header{{}, 4 + 4 * static_cast<size_t>(axes), 0};
  require<DataError>(bytes.size() >= header.bytes, name, ": is cut off in its header, at byte ", bytes.size(), "; get it again");
  int64_t elements = 1;
  for (size_t at = 4; at < header.bytes; at += 4) {
    const int64_t size = big_endian(bytes, at);
    require<DataError>(size >= 1 && size <= kMostBytes / elements, name, ": byte ", at, " claims an axis of ", size,
                       "; needs at least 1, and at most ", kMostBytes, " bytes in all", cure);
    header.shape.push_back(size);
    elements *= size;
  }
  header.file_bytes = header.bytes + static_cast<size_t>(elements);
  return header;
}

/// The file with this name in one of its spellings; empty when there is none.
fs::path find_file(const fs::path& folder, const std::string& set, const std::string& kind) {
  for (const char* separator : {"-", "."})
    for (const char* ending : {"", ".gz"}) {
      const fs::path path = folder / (set + separator + kind + "-ubyte" + ending);
      if (exists_readably(path)) return path;
    }
  return {};
}

/// "FILE: byte N" of a label, which follows a header of 8 bytes.
std::string place_of(const fs::path& path, size_t label) {
  return join(path.string(), ": ", path.extension() == ".gz" ? "unpacked " : "", "byte ", 8 + label);
}

struct LabelledFiles {
  fs::path image_file, label_file;
  IdxArray images, labels;
};

fs::path images_of(const fs::path& folder, const std::string& set) { return find_file(folder, set + "-images", "idx3"); }
fs::path labels_of(const fs::path& folder, const std::string& set) { return find_file(folder, set + "-labels", "idx1"); }

LabelledFiles read_set(const fs::path& folder, const std::string& set) {
  const fs::path image_file = images_of(folder, set), label_file = labels_of(folder, set);
  for (const auto& [file, kind] : {std::pair(image_file, "-images-idx3"), std::pair(label_file, "-labels-idx1")})
    require<DataError>(!file.empty(), folder.string(), ": lacks the file ", set, kind, "-ubyte (or the same with .gz)");
  LabelledFiles files{image_file, label_file, parse_idx(image_file.string(), read_file(image_file)),
                      parse_idx(label_file.string(), read_file(label_file))};
  const auto& shape = files.images.shape;
  require<DataError>(shape.size() >= 3, image_file.string(), ": needs images, 3 or 4 axes, got ", shape.size());
  require<DataError>(shape.size() == 3 || shape[3] == 1 || shape[3] == 3, image_file.string(), ": needs 1 or 3 channels, got ",
                     shape.back());
  require<DataError>(files.labels.shape.size() == 1, label_file.string(), ": needs labels, 1 axis, got ", files.labels.shape.size());
  require<DataError>(files.labels.shape[0] == shape[0], label_file.string(), ": has ", files.labels.shape[0], " labels for ", shape[0],
                     " images in ", image_file.string());
  return files;
}

ImageSourcePtr source_of(LabelledFiles files, const std::vector<std::string>& class_names) {
  const auto& shape = files.images.shape;
  std::vector<uint8_t> labels(files.labels.bytes.begin(), files.labels.bytes.end());
  for (size_t i = 0; i < labels.size(); ++i)
    require<DataError>(labels[i] < class_names.size(), place_of(files.label_file, i), " is label ", int{labels[i]},
                       "; there are classes 0..", class_names.size() - 1);
  return std::make_shared<ImageArray>(shape[1], shape[2], shape.size() == 4 ? shape[3] : 1,
                                      std::vector<uint8_t>(files.images.bytes.begin(), files.images.bytes.end()), std::move(labels),
                                      class_names);
}

}  // namespace

IdxArray parse_idx(const std::string& name, std::string bytes) {
  const bool packed = is_gzip(bytes);
  Header header = parse_header(name, packed ? gunzip_start(name, bytes, kLongestHeader) : bytes.substr(0, kLongestHeader));
  if (packed) bytes = gunzip(name, bytes, header.file_bytes);
  require<DataError>(bytes.size() == header.file_bytes, name, ": its header needs ", header.file_bytes, " bytes in all, got ", bytes.size(),
                     "; the file is cut off or damaged: get it again");
  bytes.erase(0, header.bytes);
  return {std::move(header.shape), std::move(bytes)};
}

ImageSplits open_idx(const std::string& folder, std::vector<std::string> class_names) {
  const fs::path names = fs::path(folder) / "classes.txt";
  LabelledFiles train = read_set(folder, "train");
  if (class_names.empty() && exists_readably(names)) class_names = read_class_names(names);
  if (class_names.empty()) {
    const auto largest = std::max_element(train.labels.bytes.begin(), train.labels.bytes.end(),
                                          [](char a, char b) { return static_cast<uint8_t>(a) < static_cast<uint8_t>(b); });
    class_names = numbered_classes(static_cast<uint8_t>(*largest) + 1);
  }
  ImageSplits splits{source_of(std::move(train), class_names), nullptr};
  if (!images_of(folder, "t10k").empty() || !labels_of(folder, "t10k").empty()) {
    LabelledFiles validation = read_set(folder, "t10k");
    const std::string file = validation.image_file.string();
    splits.validation = source_of(std::move(validation), class_names);
    require<DataError>(splits.validation->channels() == splits.train->channels(), file, ": needs ", splits.train->channels(),
                       " channels, as the training images have, got ", splits.validation->channels());
  }
  return splits;
}

}  // namespace sluice::data
