#pragma once
#include <memory>
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "core/batch.h"
#include "layers/graph.h"

namespace sluice::bench {

/// Sizes of the AmoebaNet-D whose steps are timed; 10 classes.
struct ImageSizes {
  int64_t layers = 6, filters = 64, image_size = 64;
};

/// What the mini-batches of "translation" have of padding.
enum class Padding {
  none,       ///< every sentence fills its mini-batch
  buckets,    ///< what a TokenBudgetSampler leaves of sentences of 2 to 125 letters
  worked_on,  ///< the same mini-batches, whose lengths say that all of it is sentences: what it costs not to skip padding
};

/// A model that steps are timed on, and what it is trained on. All figures are of one run: a training step on each of the mini-batches.
struct StepModel {
  layers::Graph graph;
  std::vector<Batch> batches;  ///< random samples, the same at every call; several only where their shapes differ
  std::unique_ptr<Optimizer> optimizer;
  const char* item;  ///< what is counted a second: "tokens", "images" ...
  double items;
  double flops;
  const char* flops_rule;  ///< how they were counted
};

struct StepModelOptions {
  std::string name = "gpt";
  int64_t samples = 8;  ///< of a mini-batch; of one of the longest sentences
  ImageSizes image{};
  Padding padding = Padding::none;
  int64_t sequence = 512;  ///< items of each sample of lstm and gru
};

/// "gpt": 6 layers, dim 384, 6 heads, context 256, vocabulary 8192, "gpt-bytes": the same with a vocabulary of 256, "gpt2-124m"
/// and "gpt2-1558m": the smallest and the largest GPT-2, context 1024. All pre-LN with learned positions, tanh-GELU, tied, no dropout, under Adam; FLOPs as MFU counts them.
/// "amoebanet": AmoebaNet-D under SGD; FLOPs are three times those that the ops of its forward pass declare.
/// "moe": two residual layers of experts, width 384, inner 1536, 8 experts of which 2 are chosen, 256 tokens, mean squared error and balance
/// losses, under Adam; FLOPs as amoebanet's.
/// "lstm", "gru": one layer from 256 to 256 over sequences, mean squared error, under Adam; FLOPs as amoebanet's.
/// "translation": 3 + 3 layers, dim 384, 6 heads, up to 128 tokens a side, vocabulary 8192, one table, under Adam; FLOPs likewise, and
/// those of padding are counted. Tokens are those of both sides without padding.
/// Errors  UsageError for another name, and padding of another model than translation.
StepModel step_model(const StepModelOptions& options);

}  // namespace sluice::bench
