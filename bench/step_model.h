#pragma once
#include <functional>
#include <string>

#include "autograd/optim/optimizer.h"
#include "core/batch.h"
#include "layers/graph.h"

namespace sluice::bench {

/// Sizes of the AmoebaNet-D whose steps are timed; 10 classes.
struct ImageSizes {
  int64_t layers = 6, filters = 64, image_size = 64;
};

/// A model that steps are timed on.
struct StepModel {
  layers::Graph graph;
  std::function<Batch(int64_t samples)> batch;  ///< random samples, the same at every call
  std::unique_ptr<Optimizer> optimizer;
  const char* item;        ///< what is counted a second: "tokens" or "images"
  int64_t items_a_sample;  ///< tokens of a sample, or 1
  double flops_a_sample;   ///< of a training step
  const char* flops_rule;  ///< how they were counted
};

/// "gpt": 6 layers, dim 384, 6 heads, context 256, vocabulary 8192, "gpt-bytes": the same with a vocabulary of 256, and "gpt2-124m": the
/// smallest GPT-2, context 1024. All pre-LN with learned positions, tanh-GELU, tied, no dropout, under Adam; FLOPs as MFU counts them.
/// "amoebanet": AmoebaNet-D under SGD; FLOPs are three times those that the ops of its forward pass declare.
/// Errors  UsageError for another name.
StepModel step_model(const std::string& name, const ImageSizes& sizes);

}  // namespace sluice::bench
