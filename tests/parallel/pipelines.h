#pragma once
#include <functional>
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "core/batch.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "parallel/plan/choices.h"

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

/// How a graph is trained on CPU devices, in four micro-batches.
struct Pipeline {
  int devices = 1;
  parallel::ScheduleChoice schedule = parallel::NamedSchedule::gpipe;
  parallel::RematChoice remat = parallel::Remat::none;  ///< open: within a budget halfway between what none and full need
  parallel::PartitionChoice partition = parallel::kOpen;
  const Optimizer* optimizer = nullptr;  ///< null: AdamW
};

/// Three steps and an evaluation. Expects the bytes of every device to be those predicted.
Outcome train(const layers::Graph& graph, const BatchMaker& batch, const Pipeline& pipeline);

/// Expects one outcome of 1 to 4 devices, gpipe and 1f1b, with and without recomputation.
void expect_one_answer(const layers::Graph& graph, const BatchMaker& batch, const Optimizer* optimizer = nullptr);

/// Expects one outcome of every other schedule and of shuffled tables too, on 1, 2 and 4 devices, with no, full and chosen recomputation.
void expect_one_answer_of_every_schedule(const layers::Graph& graph, const BatchMaker& batch);

/// Expects that searches of cuts believe of a stage's weights, gradients and states what the device of a run then has, wherever a model
/// without tied weights is cut.
void expect_states_as_searches_count_them(const layers::Graph& graph, int64_t samples, Precision precision, const Optimizer& optimizer);

/// For a trace: "none", "full", "open", or "some" where nodes are named.
inline std::string text_of(const parallel::RematChoice& remat) {
  if (remat.is_open()) return "open";
  return remat.rule() ? std::string(name_of(*remat.rule())) : "some";
}

/// Stages on devices in turn, in a random order that keeps to what the stages wait for; the backwards of odd stages are split.
parallel::Schedule shuffled_schedule(int devices, int stages, int micro_batches, unsigned seed);

}  // namespace sluice::testing
