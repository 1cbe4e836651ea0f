#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace sluice::data {

/// One look at one sample. Whatever is random in it comes from `key`, which (seed, split, epoch, sample) decide and nothing else: all inputs
/// of a sample have one key, so an image and its mask are flipped alike.
struct SampleView {
  Split split = Split::train;
  int64_t epoch = 0;  ///< 0 in the validation split, whose samples look the same each time
  int64_t sample = 0;
  uint64_t key = 0;  ///< for rand(), randn() ...; random_key(key, "name") where several numbers are drawn
};

/// One value of a sample, without the axis of samples, as the model is to have it. Equal arguments have to give equal bits; it is called from
/// any thread.
using SampleFunction = std::function<Tensor(const Tensor& value, const SampleView& view)>;

/// An input that is made of one of the source's.
struct MappedInput {
  std::string from;
  SampleFunction function;
};

/// Another data set, with inputs that functions make of its inputs sample by sample: augmentation, noise, targets of a task of its own.
///   MapDataset flipped(source, {{"image", [](const Tensor& x, const SampleView& view) {
///     return view.split == Split::train && rand({}, view.key).item() < 0.5 ? flip(x, {1}) : x;
///   }}});
class MapDataset : public Dataset {
 public:
  /// `functions`  by the input whose place the result takes. Other inputs stay.
  MapDataset(std::shared_ptr<const Dataset> source, std::map<std::string, SampleFunction> functions, uint64_t seed = 0);
  /// `inputs`  by the name of the result, in the place of the source's input of that name or beside it.
  /// Errors  UsageError for one that is made of an input that the source lacks, or without a function.
  MapDataset(std::shared_ptr<const Dataset> source, std::map<std::string, MappedInput> inputs, uint64_t seed = 0);

  std::vector<std::string> inputs() const override;
  int64_t size(Split split) const override { return source_->size(split); }
  int64_t bucket(Split split, int64_t sample) const override { return source_->bucket(split, sample); }
  /// Errors  DataError and ResourceError of a function, ResourceError for what the system refuses it, as std::bad_alloc, and UsageError for
  ///         whatever else it throws, with input and sample before it; UsageError where the samples of a batch come out with several shapes.
  Tensor load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const override;

 private:
  Tensor mapped(const std::string& input, const Tensor& value, const SampleView& view) const;

  std::shared_ptr<const Dataset> source_;
  std::map<std::string, MappedInput> inputs_;
  uint64_t seed_;
};

}  // namespace sluice::data
