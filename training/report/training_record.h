#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/plan/predict.h"
#include "parallel/trainer.h"
#include "training/evaluation.h"
#include "training/evaluation_history.h"

namespace sluice::training {

/// What a training showed, for its report. A loop fills it (LoopOptions::record); a program with steps of its own calls the functions whose
/// names begin with note_, which is all that a loop does. What a caller has set stays: config, prediction, items.
/// Threads  one caller. Over several ranks each has a record, all call note_end() together, and only the root's is whole.
struct TrainingRecord {
  struct Step {
    int64_t number = 0;           ///< from 1
    parallel::StepResult result;  ///< without its bytes by device
  };
  struct Device {
    std::string name;
    int64_t predicted_peak_bytes = 0, peak_bytes = 0, budget_bytes = 0;
  };

  std::string config;           ///< as text
  int64_t parameters = 0;       ///< of the model
  std::vector<Step> steps;      ///< of this run, without the skipped ones; of a long one some, equally far apart, and the last
  int64_t skipped_steps = 0;    ///< of this run: their gradients were not finite
  int64_t steps_done = 0;       ///< in all, also before a resume
  int64_t moved_at = 0;         ///< after this step the trainer got the plan that it has: medians are of later ones
  std::string item = "sample";  ///< what speed counts
  int64_t items_per_step = 0;   ///< 0: note_end() sets it to the samples of a mini-batch
  int64_t batch = 0;            ///< samples of the largest mini-batch
  std::string loss_unit{};      ///< such as "nats"
  std::vector<EvaluationHistory::Entry> evaluations;  ///< of this run
  std::set<std::string> shares{"accuracy"};           ///< metrics from 0 to 1 that are shown in percent
  std::map<std::string, double> baselines;            ///< by name of another model: its loss on the validation split
  parallel::Prediction prediction;                    ///< of a step, by what steps took once that is known
  double counted_seconds = 0;                         ///< of a step, as predicted by the devices' full speed
  std::optional<double> measured_seconds;             ///< the same by measured times of the plan's nodes
  std::vector<Device> devices;
  parallel::Trace trace;  ///< of the last step
  std::string weights_hash;

  /// Most of `steps`: where there are more, every second goes.
  static constexpr size_t kMostSteps = 1 << 12;

  /// Takes down the step that a trainer has just done.
  void note_step(const parallel::Trainer& trainer, const Batch& mini_batch, const parallel::StepResult& result);
  /// Takes down an evaluation that is complete. From here on the devices count their peaks anew, so that those of evaluations are left out.
  void note_evaluation(const parallel::Trainer& trainer, const Evaluation& evaluation);
  /// Takes down the last step's trace, the weights' hash, and what the devices held of what was predicted. Predicts the step where nobody has
  /// (predict_step with speeds_of the devices).
  void note_end(const parallel::Trainer& trainer);
  /// Predicts a step of so many samples, with both of its times.
  void predict_step(const layers::Graph& graph, const parallel::Plan& plan, const Optimizer& optimizer, int64_t samples,
                    const parallel::DeviceSpeeds& speeds);

  /// Whether this run did a step, be it one that was skipped.
  bool has_run() const { return !steps.empty() || skipped_steps > 0; }
  /// The middle of the values of the steps by the plan that ran last, without its first step, which warms up; nothing when there is none.
  std::optional<double> median_of_steps(double parallel::StepResult::*value) const;
  /// Of a step: "25.10 ms by measured times, 11.40 ms counted".
  std::string predictions_text() const;
  /// Names of the evaluations' metrics.
  std::set<std::string> metrics() const;
  /// Of the last evaluation; nothing where it has no such metric.
  std::optional<double> last_metric(const std::string& name) const;

 private:
  void keep_step(int64_t number, const parallel::StepResult& result);
  void note_devices(const parallel::Trainer& trainer);
  int64_t noted_steps_ = 0, step_stride_ = 1;  ///< how many there were, and how far apart those in `steps` are
};

/// Bytes of a budget, or nothing when it is unlimited.
std::optional<int64_t> limited(int64_t budget_bytes);

/// What a step takes at the devices' full speed, also of a plan that has measured times.
double counted_step_seconds(const layers::Graph& graph, parallel::Plan plan, const Optimizer& optimizer, int64_t samples,
                            const parallel::DeviceSpeeds& speeds);

}  // namespace sluice::training
