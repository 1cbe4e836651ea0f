#include "cli/run_record.h"

#include <algorithm>

namespace sluice::cli {

double median_of_steps(const RunRecord& record, double parallel::StepResult::*value) {
  std::vector<double> values;
  for (const auto& step : record.steps) values.push_back(step.result.*value);
  if (values.size() > 1) values.erase(values.begin());
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<double> last_accuracy(const RunRecord& record) {
  return record.validations.empty() ? std::nullopt : record.validations.back().accuracy;
}

std::optional<int64_t> limited(int64_t budget_bytes) { return budget_bytes == kUnlimited ? std::nullopt : std::optional(budget_bytes); }

}  // namespace sluice::cli
