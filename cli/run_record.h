#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/report/attention_plot.h"
#include "cli/report/images.h"
#include "cli/translation_scores.h"
#include "parallel/replan.h"
#include "parallel/trainer.h"
#include "training/report/training_record.h"

namespace sluice::cli {

/// What a training run showed, for its JSON and its report, with what the program alone knows of it.
struct RunRecord : training::TrainingRecord {
  struct Move {
    std::vector<int> from, to;
    double seconds_before = 0, seconds_after = 0;  ///< of a step, predicted by what the first ones took
  };

  std::string sample;                                ///< of generated text
  std::vector<JudgedImage> images;                   ///< of the validation split
  std::optional<TranslationScores> translation;      ///< of held-out pairs
  std::optional<AttentionPlot> attention;            ///< of one of them
  std::optional<Move> move;                          ///< to another plan, after step `moved_at`
  std::optional<parallel::GraphChoice> cuda_graphs;  ///< where there are CUDA devices
  bool has_ranks = false;                            ///< more than one
};

/// Among the record's baselines.
inline constexpr const char* kTrigram = "trigram";

/// Takes down what the steps showed of their plan, and the plan that the trainer has now. Returns what to say of it.
std::string note_finding(const parallel::Replanner::Finding& finding, const parallel::Trainer& trainer, RunRecord& record);

}  // namespace sluice::cli
