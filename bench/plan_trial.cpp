#include "bench/plan_trial.h"

#include <algorithm>

#include "core/device_speeds.h"

namespace sluice::bench {

namespace {

std::vector<DevicePtr> cpu_devices(int count) {
  std::string names;
  for (int i = 0; i < count; ++i) names += (i ? ",cpu:" : "cpu:") + std::to_string(i);
  return devices(names, {.threads = 1});
}

const char* kind_of(parallel::ActionKind kind) {
  using parallel::ActionKind;
  switch (kind) {
    case ActionKind::forward:
      return "F";
    case ActionKind::backward:
      return "B";
    case ActionKind::input_gradient:
      return "I";
    case ActionKind::weight_gradient:
      return "W";
    case ActionKind::recompute:
      return "R";
    default:
      return "step";
  }
}

}  // namespace

SecondsByKind seconds_by_kind(const parallel::Trace& trace) {
  SecondsByKind seconds;
  for (const auto& event : trace.events)
    if (event.action.transfer.payload == parallel::Payload::none) seconds[kind_of(event.action.kind)] += event.end - event.start;
  return seconds;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

PlanTrial::PlanTrial(const StepModel& model, int devices, const parallel::PlanOptions& options)
    : model_(model),
      plan_(parallel::plan(model.graph, cpu_devices(devices), options)),
      predicted_(
          parallel::predict(model.graph, plan_, *model.optimizer, options.batch, nominal_speeds_of(plan_.devices, plan_.precision))) {}

void PlanTrial::step(const Batch& batch, bool counts) {
  if (!trainer_) trainer_ = std::make_unique<parallel::Trainer>(model_.graph, plan_, *model_.optimizer);
  const auto result = trainer_->step(batch);
  if (!counts) return;
  seconds_.push_back(result.seconds);
  bubbles_.push_back(result.bubble);
  for (const auto& [kind, seconds] : seconds_by_kind(trainer_->trace())) by_kind_[kind].push_back(seconds);
}

SecondsByKind PlanTrial::by_kind() const {
  SecondsByKind medians;
  for (const auto& [kind, seconds] : by_kind_) medians[kind] = median_of(seconds);
  return medians;
}

std::vector<int64_t> PlanTrial::peak_bytes() const {
  std::vector<int64_t> peaks;
  for (const auto& device : plan().devices) peaks.push_back(device->peak_bytes());
  return peaks;
}

bool PlanTrial::has_predicted_bytes() const {
  return std::ranges::equal(peak_bytes(), predicted_.devices, {}, {}, &parallel::DevicePrediction::peak_bytes);
}

void run_in_turn(const std::vector<PlanTrial*>& trials, const Batch& batch, int steps) {
  constexpr int kStepsATurn = 3;
  for (int done = 0; done < steps; done += kStepsATurn)
    for (PlanTrial* trial : trials)
      for (int step = -1; step < std::min(kStepsATurn, steps - done); ++step) trial->step(batch, step >= 0);
}

}  // namespace sluice::bench
