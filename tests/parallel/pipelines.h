#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/batch.h"
#include "layers/graph.h"

namespace sluice::testing {

/// What a training leaves that must not depend on the pipeline.
struct Outcome {
  std::string hash;             ///< of weights and running statistics
  std::vector<double> losses;   ///< of three steps, and the sum of one evaluation's
  std::vector<double> outputs;  ///< of that evaluation
  bool operator==(const Outcome&) const = default;
};

/// A mini-batch, a function of the seed.
using BatchMaker = std::function<Batch(uint64_t seed)>;

/// Of the batch that `train` evaluates.
constexpr uint64_t kEvaluationSeed = 77;

/// Three steps of four micro-batches on so many CPU devices, and an evaluation. Expects the bytes of every device to be those predicted.
Outcome train(const layers::Graph& graph, const BatchMaker& batch, int device_count, const std::string& schedule, const std::string& remat);

/// Expects one outcome of 1 to 4 devices, gpipe and 1f1b, with and without recomputation.
void expect_one_answer(const layers::Graph& graph, const BatchMaker& batch);

}  // namespace sluice::testing
