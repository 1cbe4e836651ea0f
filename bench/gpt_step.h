#pragma once
#include <memory>
#include <string>

#include "parallel/trainer.h"

namespace sluice::bench {

/// The language model that steps are timed on: GPT-2 form, 6 layers, dim 384, 6 heads, context 256, vocabulary 8192, tied: 13,891,584
/// parameters.
layers::Graph gpt_graph();
/// Random tokens, the same at every call.
Batch gpt_batch(int64_t samples);

/// One way to run a training step of the model, with Adam in f32.
struct StepChoice {
  int devices = 1;
  int micro_batches = 1;
  std::string schedule = "1f1b";
  std::string remat = "none";
  int threads = 1;  ///< a device
  int64_t batch = 8;
  bool bare = false;  ///< a loop of forward, backward and update without the executor; one device and micro-batch

  std::string name() const;  ///< "K=2 M=16 1f1b remat=none batch=16"
};

/// A model set up for one choice; each call of run() is one training step.
class GptStep {
 public:
  explicit GptStep(const StepChoice& choice);
  ~GptStep();
  /// Returns the loss.
  double run();

 private:
  struct Bare;
  StepChoice choice_;
  Batch batch_;
  std::unique_ptr<parallel::Trainer> trainer_;
  std::unique_ptr<Bare> bare_;
};

}  // namespace sluice::bench
