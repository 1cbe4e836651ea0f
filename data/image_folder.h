#pragma once
#include <string>

#include "data/image_source.h"

namespace sluice::data {

/// JPEG and PNG files in a folder a class, decoded when they are asked for. Classes are numbered in the order of their folders' names;
/// folders within a class belong to it; hidden files and folders are left out.
class ImageFolder : public ImageSource {
 public:
  /// Lists the files, and reads none. With `class_names` these folders are needed, and no other, as for a second split.
  /// Errors  DataError for a folder that is missing or unreadable, has no class folders, an empty or a different class, or a file in it
  ///         that does not end in .jpg, .jpeg or .png (in small or capital letters).
  explicit ImageFolder(const std::string& folder, const std::vector<std::string>& class_names = {});

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t channels() const override { return 3; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int32_t label(int64_t index) const override { return files_[static_cast<size_t>(index)].label; }
  /// Errors  DataError, naming the file, for an image that is damaged, above 256 MiB, or no image.
  Image image(int64_t index) const override;
  std::string identity() const override;  ///< of paths, sizes and times, not of contents

 private:
  struct File {
    std::string path;
    int32_t label;
  };
  void add_class(const std::string& folder, int32_t label);

  std::vector<std::string> class_names_;
  std::vector<File> files_;
};

/// A folder of class folders, or one that has such folders in `train` and, for validation, in one of `val`, `valid` and `validation`, or
/// else in `test`.
/// Errors  those of ImageFolder; DataError for any other folder beside `train`, since `train` may then be a class, and for two of `val`,
///         `valid` and `validation`.
ImageSplits open_image_folder(const std::string& folder);

}  // namespace sluice::data
