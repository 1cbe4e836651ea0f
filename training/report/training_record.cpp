#include "training/report/training_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/device_speeds.h"

namespace sluice::training {

void TrainingRecord::note_step(const parallel::Trainer& trainer, const Batch& mini_batch, const parallel::StepResult& result) {
  note_devices(trainer);
  for (size_t i = 0; i < devices.size() && i < result.peak_bytes.size(); ++i)
    devices[i].peak_bytes = std::max(devices[i].peak_bytes, result.peak_bytes[i]);
  batch = std::max(batch, mini_batch.samples);
  steps_done = trainer.steps_done();
  if (result.was_skipped)
    ++skipped_steps;
  else
    keep_step(steps_done, result);
}

void TrainingRecord::keep_step(int64_t number, const parallel::StepResult& result) {
  const auto is_kept = [&](int64_t noted) { return noted % step_stride_ == 0; };
  if (!steps.empty() && !is_kept(noted_steps_ - 1)) steps.pop_back();  // which was there as the last one
  steps.push_back({number, result});
  steps.back().result.peak_bytes = {};
  if (is_kept(noted_steps_++) && steps.size() > kMostSteps) {
    for (size_t i = 0; 2 * i < steps.size(); ++i) steps[i] = steps[2 * i];
    steps.resize((steps.size() + 1) / 2);
    step_stride_ *= 2;
  }
}

void TrainingRecord::note_devices(const parallel::Trainer& trainer) {
  const auto& of_plan = trainer.plan().devices;
  const bool are_others = !std::ranges::equal(devices, of_plan, {}, &Device::name, [](const DevicePtr& device) { return device->name(); });
  if (are_others) devices.assign(of_plan.size(), {});
  for (size_t i = 0; i < devices.size(); ++i) {
    devices[i].name = of_plan[i]->name();
    devices[i].budget_bytes = of_plan[i]->budget_bytes();
  }
}

void TrainingRecord::note_evaluation(const parallel::Trainer& trainer, const Evaluation& evaluation) {
  for (const auto& device : trainer.plan().devices) device->reset_peak();
  if (evaluation.is_complete && evaluation.loss) evaluations.push_back({trainer.steps_done(), *evaluation.loss, evaluation.metrics});
}

void TrainingRecord::note_end(const parallel::Trainer& trainer) {
  note_devices(trainer);
  parameters = trainer.graph().parameter_count();
  steps_done = trainer.steps_done();
  weights_hash = trainer.weights_hash();
  if (items_per_step == 0) items_per_step = batch;
  trace = trainer.trace();
  const bool is_root = trainer.group() == nullptr || trainer.group()->is_root();  // whose record alone is read
  if (is_root && prediction.devices.empty() && batch > 0)
    predict_step(trainer.graph(), trainer.plan(), trainer.optimizer(), batch, speeds_of(trainer.plan().devices, trainer.plan().precision));
  for (size_t i = 0; i < devices.size() && i < prediction.devices.size(); ++i)
    devices[i].predicted_peak_bytes = prediction.devices[i].peak_bytes;
}

void TrainingRecord::predict_step(const layers::Graph& graph, const parallel::Plan& plan, const Optimizer& optimizer, int64_t samples,
                                  const parallel::DeviceSpeeds& speeds) {
  prediction = parallel::predict(graph, plan, optimizer, samples, speeds);
  if (!plan.times.empty()) measured_seconds = prediction.step_seconds;
  counted_seconds = plan.times.empty() ? prediction.step_seconds : counted_step_seconds(graph, plan, optimizer, samples, speeds);
}

std::optional<double> TrainingRecord::median_of_steps(double parallel::StepResult::*value) const {
  std::vector<double> values;
  for (const auto& step : steps)
    if (step.number > moved_at) values.push_back(step.result.*value);
  if (values.size() > 1) values.erase(values.begin());
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string TrainingRecord::predictions_text() const {
  const std::string measured = measured_seconds ? fmt::format("{:.2f} ms by measured times, ", *measured_seconds * 1e3) : "";
  return fmt::format("{}{:.2f} ms counted", measured, counted_seconds * 1e3);
}

std::set<std::string> TrainingRecord::metrics() const {
  std::set<std::string> names;
  for (const auto& evaluation : evaluations)
    for (const auto& [name, value] : evaluation.metrics) names.insert(name);
  return names;
}

std::optional<double> TrainingRecord::last_metric(const std::string& name) const {
  if (evaluations.empty()) return std::nullopt;
  const auto& last = evaluations.back().metrics;
  const auto found = last.find(name);
  return found == last.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> limited(int64_t budget_bytes) { return budget_bytes == kUnlimited ? std::nullopt : std::optional(budget_bytes); }

double counted_step_seconds(const layers::Graph& graph, parallel::Plan plan, const Optimizer& optimizer, int64_t samples,
                            const parallel::DeviceSpeeds& speeds) {
  plan.times.clear();
  return parallel::predict(graph, plan, optimizer, samples, speeds).step_seconds;
}

}  // namespace sluice::training
