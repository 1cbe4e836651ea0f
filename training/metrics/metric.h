#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

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

/// The share of labels that have the largest logit, from 0 to 1: logits [samples, ..., classes] and labels i32 [samples, ...] in the input of
/// that name. Those of kIgnoredLabel are left out; of equal logits the lower class counts as larger.
/// Errors  UsageError, when it is added to, for labels of another shape than the logits' rows.
MetricMaker accuracy(const std::string& labels = "label");

/// The mean over samples of what a function says of each batch, whose mean it is.
MetricMaker mean_of(std::function<double(const Tensor& output, const Batch& batch)> function);

}  // namespace sluice::training
