#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "parallel/checkpoint.h"
#include "training/evaluation.h"
#include "training/evaluation_history.h"

namespace sluice::training {

struct TrainingRecord;

/// How long a training goes on, and what is done at which of its steps. 0 is never, where nothing else is said.
struct LoopOptions {
  int64_t steps = 0;                         ///< of the training in all, those before a resume among them
  int64_t batch = 1;                         ///< samples of a mini-batch, where there is no sampler
  uint64_t seed = 0;                         ///< of the samples' order, where there is no sampler
  int threads = 1;                           ///< that load samples ahead; 0 loads when asked
  data::BatchSamplerPtr sampler{};           ///< which samples a mini-batch has; null: shuffled ones
  int64_t evaluate_every = 0;                ///< steps; once at the end in any case
  int64_t evaluate_samples = 0;              ///< of the validation split, spread evenly; 0: all
  data::BatchSamplerPtr evaluate_sampler{};  ///< in the place of those
  MetricMakers metrics{};                    ///< beside the loss, and under other names; of graphs with an output
  std::string watched = "loss";  ///< what decides which evaluation is the best: the loss, or a metric by name, which should rise
  int patience = 0;              ///< so many evaluations of evaluate_every in a row that are no better end the training
  std::string output{};          ///< the folder of checkpoints; empty: there are none
  int64_t save_every = 0;        ///< steps; once at the end in any case
  double save_minutes = 0;       ///< in one process; over several ranks TrainerOptions::wish asks for it
  int keep = 3;                  ///< checkpoints of the newest steps
  bool keep_best = false;        ///< and one of the best evaluation, in the folder "best" of the output
  std::string config{};          ///< kept with each checkpoint, as text
  std::map<std::string, std::string> files{};  ///< kept with each checkpoint: name -> content
  TrainingRecord* record = nullptr;            ///< takes down what a report shows; all ranks have one or none. It outlives the loop
};

/// Trains: steps over a data set, evaluations, checkpoints, until the steps are done, nothing gets better, or somebody wants an end.
///   parallel::Trainer trainer(net, plan, AdamW({.lr = 1e-3}));
///   training::Loop loop(trainer, dataset, {.steps = 1000, .batch = 64, .evaluate_every = 100, .output = "runs/digits"});
///   loop.resume();
///   loop.run();
/// However a run ends, also by an error, its last good step is saved where there is an output.
/// Threads  one caller. Over several ranks each has a loop with equal options and an equal data set, and all call everything together.
/// Errors   UsageError for options out of range, and in run(), on all ranks, for those of one that differ from the root's; else what trainer,
///          data set, metrics, checkpoints and callbacks throw.
class Loop {
 public:
  Loop(parallel::Trainer& trainer, data::DatasetPtr dataset, LoopOptions options);
  /// With an output folder that is open already, in the place of LoopOptions::output. It outlives the loop.
  Loop(parallel::Trainer& trainer, data::DatasetPtr dataset, LoopOptions options, parallel::OutputFolder& output);

  struct Step {
    int64_t number;  ///< from 1, those before a resume counted
    const Batch& batch;
    const parallel::StepResult& result;
  };
  struct Saved {
    std::string folder;  ///< of the checkpoint
    int64_t step = 0;
    bool is_best = false;      ///< it is the one that keep_best keeps
    bool after_error = false;  ///< an error has ended the training, and will be thrown
  };
  /// @name What a caller wants to see or to say; each may be empty, and what it throws ends the run
  /// @{
  std::function<void(const Step&)> on_step;
  std::function<void(int64_t step, const Evaluation&)> on_evaluation;
  std::function<void(const Saved&)> on_save;
  /// Of what went wrong beside the error that is thrown.
  std::function<void(const std::string& text)> on_warning;
  /// Asked after each step, and from any thread while an evaluation runs, which is then left: true ends the run. The same on all ranks.
  std::function<bool()> stop;
  /// @}

  /// Goes on from a checkpoint of the same model, as parallel::restore does; with the evaluations that were made before it. One that was due at its
  /// step and is not among them is made when the run begins. Warns where it was trained on other samples (data_hash.h).
  void restore(const parallel::Checkpoint& checkpoint);
  /// Goes on from the newest whole checkpoint of the output; false where there is none.
  bool resume();

  /// Keeps room on the disk for the last checkpoint of a run, and then sets aside what other trainings have left in the output and its
  /// best folder: checkpoints later than the one that was restored from there, or all. A run does so itself where it has not been done.
  /// Returns  the folders they went to, "previous-1" each.
  /// Errors   ResourceError when the room is not there: then nothing is moved.
  std::vector<std::string> prepare();

  enum class End { steps_done, no_better, stopped };
  End run();

  /// Seconds of the last run, by what it did.
  struct Seconds {
    double steps = 0;
    double data = 0;  ///< waiting for mini-batches that were not loaded in time
  };
  const Seconds& seconds() const { return seconds_; }

  const EvaluationHistory& history() const { return history_; }
  /// Of the best checkpoint, within the output.
  static constexpr const char* kBestFolder = "best";
  /// Whether save_minutes have passed since the last checkpoint: for TrainerOptions::wish.
  bool is_time_to_save() const;

 private:
  struct Origin {
    std::string folder;  ///< that the checkpoint is in, the real one
    int64_t step;
  };
  void keep_room();
  int64_t last_own_step(const std::string& folder) const;
  std::string best_folder() const { return output_->path_of(kBestFolder); }
  bool is_stopped() const { return left_evaluation_ || (stop && stop()); }
  bool is_due(int64_t every) const;
  bool lacks_evaluation() const;
  bool has_patience() const { return options_.patience == 0 || history_.since_best(options_.evaluate_every) < options_.patience; }
  End run_steps();
  void step(data::Loader& loader);
  const std::string& data_hash();
  void begin_best();
  bool has_weights_of(int64_t step) const;
  void evaluate_now();
  void note(const Evaluation& evaluation);
  std::string save_to(parallel::OutputFolder& folder, int keep);
  void save(bool after_error = false);
  void save_best();
  void save_after(const std::exception* error, int64_t first);
  data::ValidationLoader validation_batches() const;
  data::LoaderOptions loading() const;

  parallel::Trainer& trainer_;
  const data::DatasetPtr dataset_;
  const LoopOptions options_;
  std::unique_ptr<parallel::OutputFolder> own_output_, best_output_;
  parallel::OutputFolder* output_ = nullptr;
  EvaluationHistory history_;
  EvaluationHistory kept_;  ///< that of the best folder's checkpoint, and those since then
  Seconds seconds_;
  double saved_at_ = 0;      ///< in steady_seconds()
  bool wants_save_ = false;  ///< of all ranks
  bool is_prepared_ = false;
  bool left_evaluation_ = false;                        ///< of this run: one was stopped
  std::optional<std::string> data_hash_;                ///< once it was asked for
  std::optional<Origin> origin_;                        ///< what was restored
  std::optional<int64_t> evaluated_step_, saved_step_;  ///< the last, of this loop
};

}  // namespace sluice::training
