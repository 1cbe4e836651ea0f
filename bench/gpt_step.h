#pragma once
#include <memory>
#include <string>

#include "models/transformer.h"
#include "parallel/trainer.h"

namespace sluice::bench {

/// A language model that steps are timed on: pre-LN, learned positions, tanh-GELU, tied, no dropout.
struct GptModel {
  models::TransformerOptions options;
  int64_t parameters;

  layers::Graph graph() const { return models::transformer_lm(options); }
  /// Random tokens, the same at every call.
  Batch batch(int64_t samples) const;
  /// What MFU counts: 6 N a token and 6 L C T for causal attention, of which half is computed.
  double flops_a_token() const;
};
/// "gpt": 6 layers, dim 384, 6 heads, context 256, vocabulary 8192. "gpt2-124m": the smallest GPT-2, context 1024.
/// Errors  UsageError for another name.
const GptModel& gpt_model(const std::string& name);

/// One way to run a training step of the model, with Adam.
struct StepChoice {
  std::string model = "gpt";
  std::string device = "cpu";  ///< "cpu" for cpu:0, cpu:1, ...; or one GPU of all stages: "cuda:0"
  int devices = 1;             ///< stages
  int micro_batches = 1;
  std::string schedule = "1f1b";
  std::string remat = "none";
  int threads = 1;  ///< a CPU device
  int64_t batch = 8;
  std::string precision = "f32";
  bool bare = false;  ///< a loop of forward, backward and update without the executor; one CPU device and micro-batch, f32

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
  Batch batch_;
  std::unique_ptr<parallel::Trainer> trainer_;
  std::unique_ptr<Bare> bare_;
};

}  // namespace sluice::bench
