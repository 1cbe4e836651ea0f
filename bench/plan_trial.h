#pragma once
#include <map>
#include <string>
#include <vector>

#include "bench/step_model.h"
#include "parallel/plan.h"
#include "parallel/trainer.h"

namespace sluice::bench {

/// Seconds of all devices in one step, by kind of action: "F", "B", "I", "W", "R", "step" (norm, tied gradients and statistics too).
using SecondsByKind = std::map<std::string, double>;
SecondsByKind seconds_by_kind(const parallel::Trace& trace);

double median_of(std::vector<double> values);

/// One plan, what it says of a step, and the steps that were run.
class PlanTrial {
 public:
  /// Plans with the times of the options on `devices` CPU devices of one thread.
  PlanTrial(const StepModel& model, int devices, const parallel::PlanOptions& options);

  /// One step, which counts or not.
  void step(const Batch& batch, bool counts);

  const parallel::Plan& plan() const { return plan_; }
  const parallel::Prediction& predicted() const { return predicted_; }
  double seconds() const { return median_of(seconds_); }
  double bubble() const { return median_of(bubbles_); }
  SecondsByKind by_kind() const;
  std::vector<int64_t> peak_bytes() const;
  bool has_predicted_bytes() const;
  /// Measured over predicted step time, less 1.
  double deviation() const { return seconds() / predicted_.step_seconds - 1; }

 private:
  const StepModel& model_;
  parallel::Plan plan_;
  parallel::Prediction predicted_;
  std::unique_ptr<parallel::Trainer> trainer_;  // from the first step on
  std::vector<double> seconds_, bubbles_;
  std::map<std::string, std::vector<double>> by_kind_;
};

/// Steps of all trials in turn, so that a disturbed moment hits all alike. Each turn begins with a step that does not count: the other
/// trials' weights are in the caches then.
void run_in_turn(const std::vector<PlanTrial*>& trials, const Batch& batch, int steps);

}  // namespace sluice::bench
