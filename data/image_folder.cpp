#include "data/image_folder.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/file/file.h"
#include "data/content_hash.h"
#include "data/image_decode.h"

namespace sluice::data {

namespace fs = std::filesystem;

namespace {

constexpr uintmax_t kMostFileBytes = uintmax_t{1} << 28;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

/// Calls `list` and turns what the file system says into an error that names the folder.
template <class List>
void read_folder(const fs::path& folder, const List& list) {
  try {
    list();
  } catch (const fs::filesystem_error& error) {
    throw DataError(join(folder.string(), ": cannot read the folder of images: ", error.code().message(), "; check the path"));
  }
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  read_folder(folder, [&] {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (is_hidden(entry.path())) continue;
      require<DataError>(entry.is_directory(), entry.path().string(), ": needs a folder a class here, and images in those; move it away");
      names.push_back(entry.path().filename().string());
    }
  });
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

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, const std::vector<std::string>& class_names) : class_names_(folders_in(folder)) {
  const std::string other = class_names.empty() ? "" : first_difference(class_names_, class_names);
  require<DataError>(other.empty(), folder, ": needs the classes of the training images, but '", other, "' is only in one of the two");
  for (size_t label = 0; label < class_names_.size(); ++label)
    add_class(fs::path(folder) / class_names_[label], static_cast<int32_t>(label));
}

void ImageFolder::add_class(const std::string& folder, int32_t label) {
  const size_t first = files_.size();
  read_folder(folder, [&] {
    for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
      if (is_hidden(entry->path())) {
        entry.disable_recursion_pending();
      } else if (entry->is_directory()) {
        require<DataError>(!entry->is_symlink(), entry->path().string(),
                           ": is a link to a folder, which is not followed; put the folder itself here, or links to its images");
      } else {
        require<DataError>(entry->is_regular_file() && is_image_name(entry->path()), entry->path().string(),
                           ": needs an image, a file that ends in .jpg, .jpeg or .png; remove it or begin its name with a point");
        files_.push_back({entry->path().string(), label});
      }
    }
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
  if (!fs::is_directory(folder / "train")) return {std::make_shared<ImageFolder>(path), nullptr};
  ImageSplits splits{std::make_shared<ImageFolder>(folder / "train"), nullptr};
  for (const char* name : {"val", "validation", "test"})
    if (!splits.validation && fs::is_directory(folder / name))
      splits.validation = std::make_shared<ImageFolder>(folder / name, splits.train->class_names());
  return splits;
}

}  // namespace sluice::data
