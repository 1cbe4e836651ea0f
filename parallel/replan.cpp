#include "parallel/replan.h"

#include <algorithm>

#include "core/machine_limits.h"

namespace sluice::parallel {

namespace {

/// Of the same micro-batches.
bool is_same(const Plan& a, const Plan& b) {
  const Schedule x = schedule_of(a, a.micro_batches), y = schedule_of(b, b.micro_batches);
  return a.partition.segments().sizes == b.partition.segments().sizes && a.rematerialize == b.rematerialize && a.window == b.window &&
         x.device_of_stage == y.device_of_stage && x.devices == y.devices;
}

}  // namespace

Replanner::Replanner(PlanOptions options, DeviceSpeeds speeds, bool moves, bool with_output)
    : options_(std::move(options)), speeds_(std::move(speeds)), moves_(moves), with_output_(with_output) {}

/// Those of the plan, or counted where it has none, as its steps showed them.
Plan Replanner::measured(const Trainer& trainer, const StepTimes& steps) const {
  Plan plan = trainer.plan();
  const int64_t samples = (options_.batch + plan.micro_batches - 1) / plan.micro_batches;
  const auto kinds = device_kinds(plan.devices);
  for (size_t device = 0; device < kinds.size(); ++device)
    if (kinds[device] == static_cast<int>(plan.times.size()))
      plan.times.push_back(counted_nodes(trainer.graph(), samples, speeds_.of(device), plan.precision, trainer.optimizer(),
                                         plan.devices[device]->backend(), nullptr, plan.micro_batches));
  plan.times = measured_times(plan, std::move(plan.times), steps);
  return plan;
}

Plan Replanner::chosen_by(const Plan& measured, const Trainer& trainer) const {
  PlanOptions options = options_;
  options.micro_batches = measured.micro_batches;
  options.optimizer = &trainer.optimizer();
  options.times = [&, kinds = device_kinds(measured.devices)](int64_t, const DevicePtr& device) {
    return measured.times[kinds[std::ranges::find(measured.devices, device) - measured.devices.begin()]];
  };
  return plan(trainer.graph(), measured.devices, options);
}

/// A thread that waits takes a while to go on.
DeviceSpeeds Replanner::measured_speeds(const Plan& plan, const StepTimes& steps) const {
  std::vector<DeviceSpeed> speeds;
  for (size_t device = 0; device < plan.devices.size(); ++device) {
    speeds.push_back(speeds_.of(device));
    if (plan.devices[device]->kind() == DeviceKind::cpu) speeds.back().link_latency_seconds = steps.mean_hand_over();
  }
  return speeds;
}

Prediction Replanner::predicted(const Plan& plan, const Trainer& trainer, const DeviceSpeeds& speeds) const {
  return predict(trainer.graph(), plan, trainer.optimizer(), options_.batch, speeds);
}

/// Whether the host has room for what goes over.
bool Replanner::holds_copy(const Trainer& trainer) const {
  int64_t bytes = 0;
  for (const Placement& placement : trainer.placements()) bytes += placement.value_bytes + placement.state_bytes;
  return bytes <= available_memory_bytes();
}

bool Replanner::holds_shapes(const Plan& plan, const Trainer& trainer) const {
  try {
    peak_bytes_of_steps(trainer.graph(), plan, trainer.optimizer(), shapes_);
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

/// Returns what the step will take when it moves.
std::optional<Prediction> Replanner::move(Trainer& trainer, const Plan& measured, const DeviceSpeeds& speeds, double seconds) {
  const Plan next = chosen_by(measured, trainer);
  if (is_same(next, measured)) return std::nullopt;
  Prediction prediction = predicted(next, trainer, speeds);
  const bool is_worth_it = prediction.fits && prediction.step_seconds <= seconds * (1 - kWorthMoving);
  if (!is_worth_it || !predict_evaluation(trainer.graph(), next, trainer.optimizer(), options_.batch, with_output_).fits)
    return std::nullopt;
  if (!holds_shapes(next, trainer) || !holds_copy(trainer)) return std::nullopt;
  trainer.move_to(next);
  return prediction;
}

std::optional<Replanner::Finding> Replanner::note_step(Trainer& trainer) {
  if (is_done_ || !trainer.cuda_graphs().is_made() || ++steps_ <= kWarmUp) return std::nullopt;
  traces_.push_back(trainer.trace());
  if (steps_ < kWarmUp + kMeasured) return std::nullopt;
  is_done_ = true;
  const StepTimes steps = times_of_usual(std::move(traces_));
  const Plan plan = measured(trainer, steps);
  const DeviceSpeeds speeds = measured_speeds(plan, steps);
  Finding finding{predicted(plan, trainer, speeds), plan.partition.stage_sizes(), std::nullopt, false};
  finding.was_searched = moves_ && finding.prediction.fits;
  if (finding.was_searched) finding.next = move(trainer, plan, speeds, finding.prediction.step_seconds);
  if (finding.next) *this = Replanner(std::move(options_), std::move(speeds_), false, with_output_);
  return finding;
}

}  // namespace sluice::parallel
