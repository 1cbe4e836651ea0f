#include "data/image_folder.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/file/file.h"
#include "data/content_hash.h"
#include "data/image_decode.h"
#include "data/readable_path.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

constexpr uintmax_t kMostFileBytes = uintmax_t{1} << 28;

bool is_image_name(const fs::path& path) {
  const std::string ending = ending_of(path);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder)) {
    if (is_hidden(entry.path())) continue;
    require<DataError>(is_folder_readably(entry), entry.path().string(),
                       ": needs a folder a class here, and images in those; move it away");
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  require<DataError>(!names.empty(), folder.string(), ": is empty; needs a folder a class, and images in those");
  return names;
}

/// The first name that one list has and the other lacks.
std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> different;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(different));
  return different.empty() ? "" : different.front();
}

constexpr std::array kValidationNames{"val", "valid", "validation"};

bool is_split_name(const std::string& name) {
  return name == "train" || name == "test" || std::find(kValidationNames.begin(), kValidationNames.end(), name) != kValidationNames.end();
}

/// A folder that is no split shows that `train` may be a class, as in bus, car, train: its images would be all that is trained on.
void require_splits(const fs::path& folder) {
  for (const auto& entry : entries_of(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_hidden(entry.path()) || is_split_name(name) || !is_folder_readably(entry)) continue;
    throw DataError(join(entry.path().string(), ": beside the folder train, which holds the training images, needs only val, valid, ",
                         "validation or test, got the folder ", name, "; if train is a class, rename its folder, as to trains; else move ",
                         name, " away"));
  }
}

/// The folder of the validation images beside `train`, those of the test where there is no other; empty without both.
fs::path validation_folder(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const char* name : kValidationNames)
    if (is_folder_readably(folder / name)) found.push_back(folder / name);
  if (found.size() > 1)
    throw DataError(join(folder.string(), ": needs one folder of validation images, got ", found[0].filename().string(), " and ",
                         found[1].filename().string(), "; move one of the two away"));
  if (!found.empty()) return found.front();
  return is_folder_readably(folder / "test") ? folder / "test" : fs::path();
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, const std::vector<std::string>& class_names) : class_names_(folders_in(folder)) {
  const std::string other = class_names.empty() ? "" : first_difference(class_names_, class_names);
  require<DataError>(other.empty(), folder, ": needs the classes of the training images, but '", other, "' is only in one of the two");
  for (size_t label = 0; label < class_names_.size(); ++label)
    add_class(fs::path(folder) / class_names_[label], static_cast<int32_t>(label));
}

void ImageFolder::add_class(const std::string& folder, int32_t label) {
  const size_t first = files_.size();
  visit_files_below(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    require<DataError>(entry.is_regular_file(ignored) && is_image_name(entry.path()), entry.path().string(),
                       ": needs an image, a file that ends in .jpg, .jpeg or .png; remove it or begin its name with a point");
    files_.push_back({entry.path().string(), label});
  });
  require<DataError>(files_.size() > first, folder, ": this class has no images; add some or remove the folder");
  std::sort(files_.begin() + static_cast<int64_t>(first), files_.end(), [](const File& a, const File& b) { return a.path < b.path; });
}

Image ImageFolder::image(int64_t index) const {
  const std::string& path = files_[static_cast<size_t>(index)].path;
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  require<DataError>(error || bytes <= kMostFileBytes, path, ": has ", bytes, " bytes; images of at most ", kMostFileBytes, " are read");
  return decode_image(path, read_file(path));
}

std::string ImageFolder::identity() const {
  ContentHash hash;
  std::error_code ignored;
  for (const auto& file : files_)
    hash.add(
        join(file.path, "\n", fs::file_size(file.path, ignored), " ", fs::last_write_time(file.path, ignored).time_since_epoch().count()));
  return hash.text();
}

ImageSplits open_image_folder(const std::string& path) {
  const fs::path folder = path;
  if (!is_folder_readably(folder / "train")) return {std::make_shared<ImageFolder>(path), nullptr};
  require_splits(folder);
  const fs::path validation = validation_folder(folder);
  ImageSplits splits{std::make_shared<ImageFolder>(folder / "train"), nullptr};
  if (!validation.empty()) splits.validation = std::make_shared<ImageFolder>(validation, splits.train->class_names());
  return splits;
}

}  // namespace sluice::data
