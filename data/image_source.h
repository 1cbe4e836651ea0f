#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/image.h"

namespace sluice::data {

/// Numbered images, each with the number of its class.
/// Threads  const functions: any.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual int64_t size() const = 0;
  virtual int64_t channels() const = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual int32_t label(int64_t index) const = 0;  ///< an index into class_names()
  /// Errors  DataError, naming the file, when it is read only now and damaged.
  virtual Image image(int64_t index) const = 0;
  /// Tells this source's images from others: a hash of what they are made from.
  virtual std::string identity() const = 0;
};

using ImageSourcePtr = std::shared_ptr<const ImageSource>;

/// What a data set has: images to train on, and images to validate on where the files keep some apart (else null).
struct ImageSplits {
  ImageSourcePtr train, validation;
};

/// Where classes are others than in training, as labels are their numbers: "class 0 is 'cat' in training and 'dog' in validation". Empty where
/// they are the same.
std::string class_difference(const std::vector<std::string>& training, const std::vector<std::string>& other, const std::string& where);

/// The splits. Errors  UsageError for none to train on, and for validation images of other channels or classes than the training images.
ImageSplits checked_splits(ImageSplits splits);

/// Image `index`, of the source's channels and with as many bytes as its size says. Errors  UsageError for a source that gives another.
Image checked_image(const ImageSource& source, int64_t index);

/// Images of one size, in memory.
class ImageArray : public ImageSource {
 public:
  /// `pixels` are [labels, height, width, channels]. Errors  UsageError when sizes do not match or a label has no class.
  ImageArray(int64_t height, int64_t width, int64_t channels, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
             std::vector<std::string> class_names);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t channels() const override { return channels_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int32_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  Image image(int64_t index) const override;
  std::string identity() const override;

 private:
  int64_t height_, width_, channels_;
  std::vector<uint8_t> pixels_, labels_;
  std::vector<std::string> class_names_;
};

/// The lines of a file of class names, empty ones at the end left out. Errors  DataError when it is missing, empty or not text.
std::vector<std::string> read_class_names(const std::string& path);

/// "0", "1", ...
std::vector<std::string> numbered_classes(int64_t count);

}  // namespace sluice::data
