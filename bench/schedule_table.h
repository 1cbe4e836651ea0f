#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/plan_trial.h"
#include "bench/schedule_word.h"

namespace sluice::bench {

struct PlanBenchOptions {
  std::string model = "gpt";
  int devices = 2;
  int64_t batch = 32;
  std::vector<int> micro_batches{2, 8, 32};
  std::vector<std::string> schedules = schedule_words();
  std::vector<int> alone;  ///< numbers of micro-batches at which one device takes the step too
  int steps = 9;
  bool kinds = false;  ///< prints seconds by kind of action, too
};

struct BenchResult {
  nlohmann::json figures;
  bool holds = true;  ///< what plans promise beyond times: bytes, and rematerialization where there are budgets
};

/// What all plans of a run share: the model, its samples, and the nodes' times on so many devices at work, measured once a size.
class PlanBench {
 public:
  explicit PlanBench(const PlanBenchOptions& options);
  const StepModel& model() const { return model_; }
  const Batch& batch() const { return model_.batches.front(); }
  /// A plan of one schedule; further choices are the caller's.
  parallel::PlanOptions plan_options(const std::string& schedule, int micro_batches) const;
  std::unique_ptr<PlanTrial> trial(const parallel::PlanOptions& options) const;
  /// The same on one device.
  std::unique_ptr<PlanTrial> trial_alone(const parallel::PlanOptions& options) const;

 private:
  const std::vector<parallel::NodeTimes>& times(int64_t samples) const;
  const PlanBenchOptions& options_;
  StepModel model_;
  mutable std::map<int64_t, std::vector<parallel::NodeTimes>> times_;  // by samples of a micro-batch
};

/// "412 MiB" of each device; one number when predicted and measured agree, both otherwise.
std::string bytes_text(const PlanTrial& trial);
/// Prints one trial's line.
void print_trial(const std::string& name, const PlanTrial& trial, bool kinds);
nlohmann::json figures_of(const PlanTrial& trial);

/// Every schedule with every number of micro-batches: predicted and measured step, bubble and bytes.
BenchResult run_schedules(const PlanBenchOptions& options);

}  // namespace sluice::bench
