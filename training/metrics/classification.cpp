#include "training/metrics/classification.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace sluice::training {

Classification::Classification(std::vector<std::string> class_names, std::string labels)
    : class_names_(std::move(class_names)),
      labels_(std::move(labels)),
      ranks_(class_names_.size() + 1),
      unpredicted_(class_names_.size()),
      confusion_(class_names_.size(), std::vector<int64_t>(class_names_.size())) {}

void Classification::add(const Tensor& logits, const Tensor& labels) {
  const size_t classes = class_names_.size();
  require(logits.rank() >= 2 && static_cast<size_t>(logits.dim(-1)) == classes && labels.shape() == logits.shape().without(-1),
          "classification: needs logits of ", classes, " classes and a label for each row, got ", logits, " and ", labels);
  const std::vector<double> all = logits.to_vector(), wanted = labels.to_vector();
  for (size_t sample = 0; sample < wanted.size(); ++sample) {
    if (wanted[sample] == kIgnoredLabel) continue;
    const double* row = all.data() + sample * classes;
    require_class("classification", wanted[sample], static_cast<int64_t>(classes));
    const auto label = static_cast<size_t>(wanted[sample]);
    if (std::any_of(row, row + classes, [](double x) { return std::isnan(x); })) {
      ++ranks_.back();
      ++unpredicted_[label];
      continue;
    }
    const auto larger = std::count_if(row, row + classes, [&](const double& x) { return x > row[label]; });
    const auto equal_before = std::count(row, row + label, row[label]);
    ++ranks_[static_cast<size_t>(larger + equal_before)];
    ++confusion_[label][static_cast<size_t>(std::max_element(row, row + classes) - row)];
  }
}

int64_t Classification::samples() const { return std::accumulate(ranks_.begin(), ranks_.end(), int64_t{0}); }

double Classification::top(size_t k) const {
  const auto end = ranks_.begin() + static_cast<std::ptrdiff_t>(std::min(k, class_names_.size()));
  return static_cast<double>(std::accumulate(ranks_.begin(), end, int64_t{0})) / static_cast<double>(samples());
}

double Classification::mean_iou() const {
  double sum = 0;
  int present = 0;
  for (size_t i = 0; i < confusion_.size(); ++i) {
    int64_t either = unpredicted_[i] - confusion_[i][i];
    for (size_t j = 0; j < confusion_.size(); ++j) either += confusion_[i][j] + confusion_[j][i];
    if (either == 0) continue;
    sum += static_cast<double>(confusion_[i][i]) / static_cast<double>(either);
    ++present;
  }
  return sum / present;
}

std::string Classification::table() const {
  size_t names = 5, digits = std::to_string(class_names_.size()).size();
  for (size_t i = 0; i < class_names_.size(); ++i) {
    names = std::max(names, class_names_[i].size());
    for (const int64_t count : confusion_[i]) digits = std::max(digits, std::to_string(count).size());
  }
  const size_t number = std::to_string(class_names_.size()).size();
  std::string text = fmt::format("{:{}} {:<{}} |", "", number, "label", names);
  for (size_t i = 0; i < class_names_.size(); ++i) text += fmt::format(" {:>{}}", i, digits);
  for (size_t i = 0; i < class_names_.size(); ++i) {
    text += fmt::format("\n{:>{}} {:<{}} |", i, number, class_names_[i], names);
    for (const int64_t count : confusion_[i]) text += fmt::format(" {:>{}}", count, digits);
  }
  return text + "\n";
}

}  // namespace sluice::training
