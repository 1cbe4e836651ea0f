// Mixtures of experts: the model is a graph like any other, so that every pipeline gives one answer in the bytes that are planned.
#include "layers/mixture_of_experts.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "layers/linear.h"
#include "layers/loss_sum.h"
#include "layers/losses.h"
#include "parallel/trainer.h"
#include "tests/parallel/pipelines.h"

namespace sluice::parallel {
namespace {

using namespace layers;

constexpr int64_t kSamples = 8, kTokens = 6, kWidth = 8;

Graph mixture_graph() {
  const Experts::Options options{.width = kWidth, .inner = 16, .experts = 4, .chosen = 2, .capacity_factor = 0.75};
  Graph graph;
  const Value x = graph.input("x", {kTokens, kWidth}), target = graph.input("target", {kTokens, kWidth});
  const auto first = add_mixture_of_experts(graph, "first", options, graph.add("before", Linear(kWidth, kWidth), x));
  const auto second = add_mixture_of_experts(graph, "second", options, graph.add("between", Linear(kWidth, kWidth), first.output));
  graph.output(second.output);
  graph.loss(graph.add(
      "loss",
      LossSum().with("y", MeanSquaredError(), 1, {0, 1}).with("first", BalanceLoss(2), 0.01, {2}).with("second", BalanceLoss(2), 0.01, {3}),
      {second.output, target, first.probabilities, second.probabilities}));
  return graph;
}

Batch batch_of_seed(uint64_t seed) {
  return batch_of({{"x", randn({kSamples, kTokens, kWidth}, random_key(seed, "x"))},
                   {"target", randn({kSamples, kTokens, kWidth}, random_key(seed, "t"))}});
}

TEST(MixtureOfExperts, HasOneAnswerForEveryPipeline) { sluice::testing::expect_one_answer(mixture_graph(), batch_of_seed); }

TEST(MixtureOfExperts, DropsTheSameTokensWhateverTheMicroBatches) {
  const Graph graph = mixture_graph();
  const auto result = [&](int micro_batches, Precision precision) {
    const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = micro_batches, .precision = precision});
    Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
    const auto step = trainer.step(batch_of_seed(1));
    return std::pair(step.loss, step.gradient_norm);
  };
  const auto [loss, norm] = result(1, Precision::f32);
  for (const int micro_batches : {2, 4, 8}) {
    EXPECT_NEAR(result(micro_batches, Precision::f32).first, loss, 1e-5 * loss);
    EXPECT_NEAR(result(micro_batches, Precision::f32).second, norm, 1e-4 * norm);
  }
  EXPECT_NEAR(result(2, Precision::bf16).first, loss, 0.05 * loss);
}

}  // namespace
}  // namespace sluice::parallel
