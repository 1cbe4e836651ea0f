#pragma once
#include <memory>
#include <string>

#include "bench/step_model.h"
#include "parallel/trainer.h"

namespace sluice::bench {

/// One way to run a training step of a model.
struct StepChoice {
  std::string model = "gpt";  ///< see step_model
  ImageSizes image{};
  Padding padding = Padding::none;
  int64_t sequence = 512;      ///< items of each sample of lstm and gru
  std::string device = "cpu";  ///< "cpu" for cpu:0, cpu:1, ...; or one GPU of all stages: "cuda:0"
  int devices = 1;             ///< stages
  int micro_batches = 1;
  std::string schedule = "1f1b";  ///< see schedule_of_word
  parallel::PartitionChoice partition = parallel::kOpen;
  parallel::Remat remat = parallel::Remat::none;
  int threads = 1;  ///< a CPU device
  int64_t batch = 8;
  std::string precision = "f32";
  bool cuda_graphs = false;  ///< after the first step
  Tuning tuning = Tuning::off;
  bool by_node = false;  ///< every node a stage of its own, so that the trace has the times of each
  bool bare = false;     ///< a loop of forward, backward and update without the executor; one CPU device and micro-batch, f32

  std::string name() const;  ///< "K=2 M=16 1f1b remat=none batch=16"
};

/// A model set up for one choice; each call of run() is one training step on each of the model's mini-batches.
class TrainingStep {
 public:
  explicit TrainingStep(const StepChoice& choice);
  ~TrainingStep();
  const StepModel& model() const { return model_; }
  /// Returns the last loss.
  double run();
  /// Of the last step; not of a bare one.
  const parallel::Trace& trace() const { return trainer_->trace(); }

 private:
  struct Bare;
  StepModel model_;
  std::unique_ptr<parallel::Trainer> trainer_;
  std::unique_ptr<Bare> bare_;
};

}  // namespace sluice::bench
