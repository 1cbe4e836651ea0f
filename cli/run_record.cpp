#include "cli/run_record.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/list_text.h"

namespace sluice::cli {

void note_step(RunRecord& record, int64_t number, const parallel::StepResult& result) {
  auto& steps = record.steps;
  const auto is_kept = [&](int64_t noted) { return noted % record.step_stride == 0; };
  if (!steps.empty() && !is_kept(record.noted_steps - 1)) steps.pop_back();  // which was there as the last one
  steps.push_back({number, result});
  steps.back().result.peak_bytes = {};
  if (is_kept(record.noted_steps++) && steps.size() > kMostSteps) {
    for (size_t i = 0; 2 * i < steps.size(); ++i) steps[i] = steps[2 * i];
    steps.resize((steps.size() + 1) / 2);
    record.step_stride *= 2;
  }
}

double median_of_steps(const RunRecord& record, double parallel::StepResult::*value) {
  std::vector<double> values;
  for (const auto& step : record.steps)
    if (!record.move || step.number > record.move->step) values.push_back(step.result.*value);
  if (values.size() > 1) values.erase(values.begin());
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

namespace {

/// The predicted peaks of a run are those of whichever of its plans needs more.
void take_prediction(RunRecord& record, parallel::Prediction prediction) {
  for (size_t i = 0; i < prediction.devices.size(); ++i)
    prediction.devices[i].peak_bytes = std::max(prediction.devices[i].peak_bytes, record.prediction.devices[i].peak_bytes);
  record.prediction = std::move(prediction);
  record.measured_seconds = record.prediction.step_seconds;
}

}  // namespace

std::string note_finding(const parallel::Replanner::Finding& finding, const parallel::Trainer& trainer, RunRecord& record) {
  take_prediction(record, finding.prediction);
  if (!finding.was_searched) return "";
  const std::string begin = fmt::format("replan: after step {} the plan ", trainer.steps_done());
  if (!finding.next)
    return begin + fmt::format("stays: by measured times none is {:.0f} % faster", parallel::Replanner::kWorthMoving * 100);
  take_prediction(record, *finding.next);
  const double before = finding.prediction.step_seconds, after = finding.next->step_seconds;
  const auto& move = record.move.emplace(trainer.steps_done(), finding.stage_sizes, trainer.plan().partition.stage_sizes(), before, after);
  return begin + fmt::format("moves from {} to {} nodes a stage: a step takes {:.2f} ms instead of {:.2f} ms, predicted by measured times",
                             list_text(move.from, "+"), list_text(move.to, "+"), after * 1e3, before * 1e3);
}

std::string predictions_text(const RunRecord& record) {
  const std::string measured = record.measured_seconds ? fmt::format("{:.2f} ms by measured times, ", *record.measured_seconds * 1e3) : "";
  return fmt::format("{}{:.2f} ms counted", measured, record.counted_seconds * 1e3);
}

std::optional<double> last_accuracy(const RunRecord& record) {
  return record.validations.empty() ? std::nullopt : record.validations.back().accuracy;
}

std::optional<int64_t> limited(int64_t budget_bytes) { return budget_bytes == kUnlimited ? std::nullopt : std::optional(budget_bytes); }

}  // namespace sluice::cli
