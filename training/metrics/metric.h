#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/batch.h"

namespace sluice::training {

/// A number of a model's outputs over a split, gathered batch by batch.
class Metric {
 public:
  virtual ~Metric() = default;
  /// `output`  of the graph's output node, [samples, ...], on the host. `batch`  what it was computed of.
  virtual void add(const Tensor& output, const Batch& batch) = 0;
  /// Of all batches so far.
  virtual double value() const = 0;
};

/// Makes a metric anew for each evaluation.
using MetricMaker = std::function<std::shared_ptr<Metric>()>;
using MetricMakers = std::map<std::string, MetricMaker>;

/// Of labels that count for nothing, as CrossEntropy leaves their targets out.
inline constexpr double kIgnoredLabel = -100;

/// Errors  UsageError naming the metric for a label that is none of the classes.
void require_class(std::string_view metric, double label, int64_t classes);

/// The share of labels that have the largest logit, from 0 to 1: logits [samples, ..., classes] and labels i32 [samples, ...] in the input of
/// that name. Those of kIgnoredLabel are left out; of equal logits the lower class counts as larger, and in a row that holds NaN none is right.
/// Errors  UsageError, when it is added to, for labels of another shape than the logits' rows, and as require_class.
MetricMaker accuracy(const std::string& labels = "label");

/// The mean over samples of what a function says of each batch, whose mean it is.
MetricMaker mean_of(std::function<double(const Tensor& output, const Batch& batch)> function);

}  // namespace sluice::training
