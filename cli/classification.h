#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace sluice::cli {

/// How a classifier's predictions meet the labels, over any number of batches.
/// Errors  UsageError for logits of other classes, and a label that is none of them.
class Classification {
 public:
  explicit Classification(std::vector<std::string> class_names);

  /// Logits [samples, classes] and labels i32 [samples].
  void add(const Tensor& logits, const Tensor& labels);

  int64_t samples() const;
  /// The share of samples whose label is among the k classes of the largest logits; of equal logits the lower class counts as larger.
  double top(size_t k) const;
  /// Samples by [label][prediction].
  const std::vector<std::vector<int64_t>>& confusion() const { return confusion_; }
  /// The confusion matrix as text: a row a label, a column a prediction.
  std::string table() const;

 private:
  std::vector<std::string> class_names_;
  std::vector<int64_t> ranks_;  ///< by place of the label among the sorted logits: samples
  std::vector<std::vector<int64_t>> confusion_;
};

}  // namespace sluice::cli
