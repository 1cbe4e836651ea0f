#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "training/metrics/metric.h"

namespace sluice::training {

/// How predictions of classes, of images or of their pixels, meet the labels, over any number of batches.
/// Errors  UsageError for logits of other classes, and a label that is none of them.
class Classification : public Metric {
 public:
  /// `labels`  the name of their input.
  explicit Classification(std::vector<std::string> class_names, std::string labels = "label");

  void add(const Tensor& output, const Batch& batch) override { add(output, batch.load(labels_, 0, batch.samples)); }
  /// top(1)
  double value() const override { return top(1); }

  /// Logits [..., classes] and labels i32 [...]: a sample each. Those of kIgnoredLabel are left out. A sample with a logit of NaN has no
  /// prediction: it counts, and is right in no class.
  void add(const Tensor& logits, const Tensor& labels);

  int64_t samples() const;
  /// The share of samples whose label is among the k classes of the largest logits; of equal logits the lower class counts as larger.
  double top(size_t k) const;
  /// The mean over classes of |labelled and predicted| / |labelled or predicted|, without classes that occur nowhere.
  /// Source  Everingham et al. 2010, "The Pascal visual object classes (VOC) challenge".
  double mean_iou() const;
  /// Samples by [label][prediction], those that have one.
  const std::vector<std::vector<int64_t>>& confusion() const { return confusion_; }
  /// The confusion matrix as text: a row a label, a column a prediction.
  std::string table() const;

 private:
  std::vector<std::string> class_names_;
  std::string labels_;
  std::vector<int64_t> ranks_;  ///< by place of the label among the sorted logits: samples; behind the last those without a prediction
  std::vector<int64_t> unpredicted_;  ///< by label: samples without a prediction
  std::vector<std::vector<int64_t>> confusion_;
};

}  // namespace sluice::training
