#include "training/metrics/metric.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/argmax.h"
#include "core/ops/reduction.h"

namespace sluice::training {

namespace {

class Accuracy : public Metric {
 public:
  explicit Accuracy(std::string labels) : labels_(std::move(labels)) {}

  void add(const Tensor& output, const Batch& batch) override {
    const Tensor labels = batch.load(labels_, 0, batch.samples);
    require(output.rank() >= 2 && labels.shape() == output.shape().without(-1), "accuracy: needs a label in '", labels_,
            "' for each row of logits, got ", labels, " for ", output);
    const auto likely = argmax(output).to_vector(), largest = max(output, {-1}).to_vector(), wanted = labels.to_vector();
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == kIgnoredLabel) continue;
      require_class("accuracy", wanted[i], output.dim(-1));
      ++count_;
      hits_ += likely[i] == wanted[i] && !std::isnan(largest[i]);
    }
  }
  double value() const override { return static_cast<double>(hits_) / static_cast<double>(count_); }

 private:
  std::string labels_;
  int64_t hits_ = 0, count_ = 0;
};

class Mean : public Metric {
 public:
  explicit Mean(std::function<double(const Tensor& output, const Batch& batch)> function) : function_(std::move(function)) {}

  void add(const Tensor& output, const Batch& batch) override {
    sum_ += function_(output, batch) * static_cast<double>(batch.samples);
    samples_ += static_cast<double>(batch.samples);
  }
  double value() const override { return sum_ / samples_; }

 private:
  std::function<double(const Tensor& output, const Batch& batch)> function_;
  double sum_ = 0, samples_ = 0;
};

}  // namespace

void require_class(std::string_view metric, double label, int64_t classes) {
  require(label >= 0 && label < static_cast<double>(classes), metric, ": needs labels from 0 to ", classes - 1, ", or ", kIgnoredLabel,
          " for those that count for nothing, got ", label);
}

MetricMaker accuracy(const std::string& labels) {
  return [labels] { return std::make_shared<Accuracy>(labels); };
}

MetricMaker mean_of(std::function<double(const Tensor& output, const Batch& batch)> function) {
  require(static_cast<bool>(function), "mean_of: needs a function of outputs and batch, got none");
  return [function = std::move(function)] { return std::make_shared<Mean>(function); };
}

}  // namespace sluice::training
