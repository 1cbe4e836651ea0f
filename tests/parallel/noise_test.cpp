// Random numbers that a module asks its call for.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/ops/operators.h"
#include "core/random.h"
#include "layers/activation.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/pipelines.h"

namespace sluice::parallel {
namespace {

using namespace layers;

constexpr int64_t kSamples = 8, kWidth = 5;

/// Draws twice, so that the second draw has to differ from the first.
Var noisy(const Call& call) {
  const Var& x = call.inputs[0];
  return x + Var(call.normal(x.shape())) * 0.3 + Var(call.uniform(x.shape())) + Var(call.zeros(x.shape()));
}

Graph noisy_graph() {
  Graph graph;
  const Value x = graph.input("x", {kWidth}), target = graph.input("target", {kWidth});
  const Value first = graph.add("first", Lambda("noisy", noisy, {1, 1}), graph.add("a", Linear(kWidth, kWidth), x));
  const Value second = graph.add("second", Lambda("noisy", noisy, {1, 1}), graph.add("b", Linear(kWidth, kWidth), first));
  const Value y = graph.add("c", Linear(kWidth, kWidth), graph.add("tanh", Tanh(), second));
  graph.output(y);
  graph.loss(graph.add("loss", MeanSquaredError(), {y, target}));
  return graph;
}

Batch batch_with_targets(uint64_t seed) {
  return batch_of({{"x", randn({kSamples, kWidth}, random_key(seed, "x"))}, {"target", randn({kSamples, kWidth}, random_key(seed, "t"))}});
}

TEST(CallNoise, HasOneAnswerForEveryPipeline) { sluice::testing::expect_one_answer(noisy_graph(), batch_with_targets); }

double loss_with(int micro_batches, const char* names) {
  const Graph graph = noisy_graph();
  const Plan chosen = plan(graph, devices(names), {.batch = kSamples, .micro_batches = micro_batches, .partition = PartitionRule::uniform});
  Trainer trainer(graph, chosen, SGD({.lr = 0}));
  trainer.step(batch_with_targets(1));
  return trainer.step(batch_with_targets(1)).loss;
}

TEST(CallNoise, BelongsToTheSampleWhateverTheMicroBatches) {
  const double whole = loss_with(1, "cpu:0");
  EXPECT_NEAR(loss_with(4, "cpu:0"), whole, 1e-6);
  EXPECT_NEAR(loss_with(8, "cpu:0,cpu:1"), whole, 1e-6);
}

TEST(CallNoise, IsAnotherForEachStepAndForEachTimeThatItIsAskedFor) {
  const Graph graph = noisy_graph();
  const Plan chosen = plan(graph, devices("cpu:0"), {.batch = kSamples, .micro_batches = 1});
  Trainer trainer(graph, chosen, SGD({.lr = 0}));
  EXPECT_NE(trainer.step(batch_with_targets(1)).loss, trainer.step(batch_with_targets(1)).loss);
  Call call;
  call.inputs = {Var(full({2, 3}, 0, DType::f64))};
  const Tensor first = call.normal({2, 3}), second = call.normal({2, 3});
  EXPECT_EQ(first.dtype(), DType::f64);
  EXPECT_NE(first.to_vector(), second.to_vector());
  Call again;
  again.inputs = call.inputs;
  EXPECT_EQ(again.normal({2, 3}).to_vector(), first.to_vector());
}

TEST(CallNoise, KeepsUniformNumbersBelowOneInEveryDtype) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
    Call call;
    call.inputs = {Var(empty({1}, dtype))};
    const auto values = call.uniform({64, 999}).to_vector();
    EXPECT_LT(std::ranges::max(values), 1) << name_of(dtype);
    EXPECT_GT(std::ranges::max(values), 0.99) << name_of(dtype);
  }
}

/// Every kind of start, of a node on each of the stages.
TEST(Initializer, StartsAlikeForEveryPipelineAndNumberOfThreads) {
  Graph graph = noisy_graph();
  graph.initialize("a.weight", Initializer::uniform(-0.1, 0.3));
  graph.initialize("a.bias", Initializer::constant(0.2));
  graph.initialize("b.weight", Initializer::truncated_normal(0.3));
  graph.initialize("b.bias", Initializer::values(randn({kWidth}, 3)));
  graph.initialize("c.weight", Initializer::kaiming_uniform(kWidth));
  const auto start_on = [&](const std::vector<DevicePtr>& places) {
    const Plan chosen = plan(graph, places, {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
    return Trainer(graph, chosen, SGD({.lr = 0.1})).weights_hash();
  };
  const std::string one = start_on({make_device("cpu:0", {.threads = 1})});
  EXPECT_EQ(start_on({make_device("cpu:0", {.threads = 3})}), one);
  EXPECT_EQ(start_on(devices("cpu:0,cpu:1")), one);
  EXPECT_EQ(start_on(devices("cpu:0,cpu:1,cpu:2")), one);
}

TEST(CallNoise, TakesDeviceAndDtypeFromTheInputs) {
  Call call;
  expect_error<UsageError>([&] { call.zeros({2}); }, {"input 0"});
  call.inputs = {Var(full({2}, 0, DType::i32))};
  EXPECT_EQ(call.full({2}, 3).to_vector(), (std::vector<double>{3, 3}));
  EXPECT_EQ(call.normal({2}).dtype(), DType::f32);
  call.inputs = {Var(empty({2}, DType::bf16, make_device("meta")))};
  EXPECT_EQ(call.uniform({2, 7}).device().kind(), DeviceKind::meta);
  EXPECT_EQ(call.uniform({2, 7}).dtype(), DType::bf16);
}

}  // namespace
}  // namespace sluice::parallel
