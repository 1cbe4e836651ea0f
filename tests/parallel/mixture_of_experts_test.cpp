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

constexpr int64_t kMixtureBatch = 8, kMixtureTokens = 6, kMixtureWidth = 5;

Graph mixture_graph() {
  Graph graph;
  const Shape sample{kMixtureTokens, kMixtureWidth};
  const Value x = graph.input("x", sample), target = graph.input("target", sample);
  const Value before = graph.add("before", Linear(kMixtureWidth, kMixtureWidth), x);
  const auto mixture =
      add_mixture_of_experts(graph, "mixture", {.width = kMixtureWidth, .inner = 7, .experts = 4, .capacity_factor = 0.9}, before);
  const Value y = graph.add("after", Linear(kMixtureWidth, kMixtureWidth), mixture.output);
  graph.output(y);
  graph.loss(graph.add("loss", LossSum().with("error", MeanSquaredError(), 1, {0, 1}).with("balance", BalanceLoss(), 0.1, {2}),
                       {y, target, mixture.probabilities}));
  return graph;
}

Batch mixture_batch(uint64_t seed) {
  const Shape shape{kMixtureBatch, kMixtureTokens, kMixtureWidth};
  return batch_of({{"x", randn(shape, random_key(seed, "x"))}, {"target", randn(shape, random_key(seed, "t"))}});
}

TEST(MixtureOfExperts, HasOneAnswerForEveryPipeline) { sluice::testing::expect_one_answer(mixture_graph(), mixture_batch); }

double mixture_loss(int micro_batches, const char* names, Precision precision = Precision::f32) {
  const Graph graph = mixture_graph();
  const Plan chosen =
      plan(graph, devices(names),
           {.batch = kMixtureBatch, .micro_batches = micro_batches, .partition = PartitionRule::uniform, .precision = precision});
  Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
  trainer.step(mixture_batch(1));
  return trainer.step(mixture_batch(1)).loss;
}

TEST(MixtureOfExperts, IsThatOfTheSamplesWhateverTheMicroBatches) {
  const double whole = mixture_loss(1, "cpu:0");
  EXPECT_NEAR(mixture_loss(4, "cpu:0"), whole, 1e-5);
  EXPECT_NEAR(mixture_loss(4, "cpu:0,cpu:1"), whole, 1e-5);
  EXPECT_NEAR(mixture_loss(8, "cpu:0,cpu:1"), whole, 1e-5);
}

TEST(MixtureOfExperts, TrainsInBf16) {
  EXPECT_NEAR(mixture_loss(4, "cpu:0,cpu:1", Precision::bf16), mixture_loss(1, "cpu:0"), 0.05);
  EXPECT_EQ(mixture_loss(4, "cpu:0,cpu:1", Precision::bf16), mixture_loss(4, "cpu:0", Precision::bf16));
}

TEST(MixtureOfExperts, IsPlannedOnDevicesThatOnlyCount) {
  const Graph graph = mixture_graph();
  const PlanOptions options{.batch = kMixtureBatch, .micro_batches = 4, .partition = PartitionRule::uniform};
  const SGD optimizer({.lr = 0.1});
  const Prediction counted = predict(graph, plan(graph, devices("meta:0,meta:1"), options), optimizer, kMixtureBatch, {});
  const Prediction real = predict(graph, plan(graph, devices("cpu:0,cpu:1"), options), optimizer, kMixtureBatch, {});
  ASSERT_EQ(counted.devices.size(), real.devices.size());
  for (size_t i = 0; i < real.devices.size(); ++i) EXPECT_EQ(counted.devices[i].peak_bytes, real.devices[i].peak_bytes);
}

}  // namespace
}  // namespace sluice::parallel
