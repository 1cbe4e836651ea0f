#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/attention_plot.h"
#include "cli/report/images.h"
#include "cli/translation_scores.h"
#include "parallel/plan.h"
#include "parallel/replan.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// What a training run showed, for its JSON and its report.
struct RunRecord {
  struct Step {
    int64_t number = 0;  ///< from 1
    parallel::StepResult result;
  };
  struct Validation {
    int64_t step = 0;
    double loss = 0;
    std::optional<double> accuracy = {};  ///< of images: from 0 to 1
  };
  struct Move {
    int64_t step = 0;  ///< after which
    std::vector<int> from, to;
    double seconds_before = 0, seconds_after = 0;  ///< of a step, predicted by what the first ones took
  };
  struct DeviceRecord {
    std::string name;
    int64_t predicted_peak_bytes = 0, peak_bytes = 0, budget_bytes = 0;
  };

  std::string config;  ///< as TOML
  int64_t parameters = 0;
  std::string item = "token";  ///< what speed counts: "token" or "sample"
  int64_t items_per_step = 0;
  int64_t steps_done = 0;   ///< in all, also before a resume
  std::vector<Step> steps;  ///< of this run, without the skipped ones; of a long one some, equally far apart, and the last (note_step)
  int64_t noted_steps = 0, step_stride = 1;  ///< of note_step
  int64_t skipped_steps = 0;                 ///< of this run: their gradients were not finite
  std::vector<Validation> validations;
  std::optional<double> trigram_loss;
  std::string weights_hash;
  std::string sample;                            ///< of generated text
  std::vector<JudgedImage> images;               ///< of the validation split
  std::optional<TranslationScores> translation;  ///< of held-out pairs
  std::optional<AttentionPlot> attention;        ///< of one of them
  parallel::Prediction prediction;               ///< the latest: by counted times, and by what steps took once that is known
  double counted_seconds = 0;                    ///< the plan's step at the devices' full speed
  std::optional<double> measured_seconds;        ///< the plan's step by measured times of its nodes
  std::optional<Move> move;                      ///< to another plan
  std::vector<DeviceRecord> devices;
  parallel::Trace trace;                             ///< of the last step
  std::optional<parallel::GraphChoice> cuda_graphs;  ///< where there are CUDA devices
  bool has_ranks = false;                            ///< more than one
};

/// Takes down a step, without its bytes by device. A training of any length keeps at most so many: where there are more, every second goes.
inline constexpr size_t kMostSteps = 1 << 12;
void note_step(RunRecord& record, int64_t number, const parallel::StepResult& result);

/// The middle of the values of the steps by the plan that ran last, without its first step, which warms up; 0 when there is none.
double median_of_steps(const RunRecord& record, double parallel::StepResult::*value);

/// Takes down what the steps showed of their plan, and the plan that the trainer has now. Returns what to say of it.
std::string note_finding(const parallel::Replanner::Finding& finding, const parallel::Trainer& trainer, RunRecord& record);

/// Of the step: "25.10 ms by measured times, 11.40 ms counted".
std::string predictions_text(const RunRecord& record);

/// Of the last validation, for images.
std::optional<double> last_accuracy(const RunRecord& record);

/// Bytes of a budget, or nothing when it is unlimited.
std::optional<int64_t> limited(int64_t budget_bytes);

}  // namespace sluice::cli
