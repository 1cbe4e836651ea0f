#include "data/image_split.h"

#include "core/error.h"
#include "core/random.h"
#include "data/content_hash.h"
#include "data/permutation.h"

namespace sluice::data {

namespace {

/// The images first .. last-1 of a shuffled order of another source.
class ShuffledPart : public ImageSource {
 public:
  ShuffledPart(ImageSourcePtr whole, uint64_t key, int64_t first, int64_t last)
      : whole_(std::move(whole)), order_(whole_->size(), key), key_(key), first_(first), last_(last) {}

  int64_t size() const override { return last_ - first_; }
  int64_t channels() const override { return whole_->channels(); }
  const std::vector<std::string>& class_names() const override { return whole_->class_names(); }
  int32_t label(int64_t index) const override { return whole_->label(order_[first_ + index]); }
  Image image(int64_t index) const override { return whole_->image(order_[first_ + index]); }
  std::string identity() const override { return ContentHash().add(whole_->identity()).add(join(key_, " ", first_, " ", last_)).text(); }

 private:
  ImageSourcePtr whole_;
  Permutation order_;
  uint64_t key_;
  int64_t first_, last_;
};

}  // namespace

ImageSplits split_by_seed(ImageSplits splits, double fraction, uint64_t seed) {
  splits = checked_splits(std::move(splits));
  if (splits.validation) return splits;
  require(fraction >= 0 && fraction <= 0.5, "data: needs a validation fraction in [0, 0.5], got ", fraction);
  const int64_t size = splits.train->size();
  const auto validation = static_cast<int64_t>(fraction * static_cast<double>(size));
  require<DataError>(size > validation && (validation > 0 || fraction == 0), "data: a fraction ", fraction, " of ", size,
                     " images leaves none for training or for validation; set another fraction or give more images");
  const uint64_t key = random_key(seed, "image split");
  return {std::make_shared<ShuffledPart>(splits.train, key, validation, size),
          std::make_shared<ShuffledPart>(splits.train, key, 0, validation)};
}

}  // namespace sluice::data
