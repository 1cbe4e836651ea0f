// RMSProp without momentum once kept a velocity that nothing reads: 16 bytes a parameter where 12 suffice.
#include <gtest/gtest.h>

#include "core/ops/copy.h"
#include "parallel/checkpoint.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

constexpr int kSamples = 6;

layers::Graph one_linear() {
  layers::Graph graph;
  const auto x = graph.input("x", {64}), label = graph.input("label", {}, DType::i32);
  const auto y = graph.add("linear", layers::Linear(64, 32, false), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {y, label}));
  return graph;
}

Batch numbers(uint64_t seed) {
  Tensor x = empty({kSamples, 64});
  fill_normal(x, 0, 1, random_key(seed, "x"));
  return batch_of({{"x", x}, {"label", testing::random_tokens({kSamples}, 32, seed)}});
}

std::unique_ptr<Trainer> trainer_of(const Optimizer& optimizer) {
  const layers::Graph graph = one_linear();
  return std::make_unique<Trainer>(graph, plan(graph, devices("cpu:0"), {.batch = kSamples, .micro_batches = 1}), optimizer);
}

int64_t state_bytes(const Optimizer& optimizer) {
  int64_t bytes = 0;
  for (const auto& placement : trainer_of(optimizer)->placements()) bytes += placement.state_bytes;
  return bytes;
}

const RMSProp kWithout({.lr = 0.01, .momentum = 0}), kWith({.lr = 0.01, .momentum = 0.5});

TEST(UnneededStates, TakeNoBytes) {
  const int64_t parameter = 64 * 32 * 4;
  EXPECT_EQ(state_bytes(kWithout), parameter);
  EXPECT_EQ(state_bytes(kWith), 2 * parameter);
  EXPECT_EQ(state_bytes(Adam({.beta1 = 0})), parameter);
  EXPECT_EQ(state_bytes(SGD({.momentum = 0})), 0);
}

TEST(UnneededStates, AreInNoPlan) {
  const layers::Graph graph = one_linear();
  const Plan chosen = plan(graph, devices("cpu:0"), {.batch = kSamples, .micro_batches = 1});
  EXPECT_EQ(predict(graph, chosen, kWithout, kSamples, {}).devices[0].optimizer_bytes, 64 * 32 * 4);
}

/// The checkpoint of a training after a step.
Checkpoint saved(Trainer& trainer, OutputFolder& output) {
  trainer.step(numbers(1));
  return open_checkpoint(output.save(trainer, "", {}, 3));
}

std::vector<double> weights(const Trainer& trainer) { return trainer.parameters()[0].value.to_vector(); }

TEST(UnneededStates, OfAnOlderCheckpointAreLeftAside) {
  TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto before = trainer_of(kWith);
  const Checkpoint checkpoint = saved(*before, output);
  const auto resumed = trainer_of(kWithout), expected = trainer_of(kWithout);
  restore(checkpoint, *resumed);
  EXPECT_EQ(weights(*resumed), weights(*before));
  const auto square = before->parameters()[0].optimizer_states[0];
  EXPECT_EQ(resumed->parameters()[0].optimizer_states[0].to_vector(), square.to_vector());

  copy(before->parameters()[0].value, expected->parameters()[0].value);
  copy(square, expected->parameters()[0].optimizer_states[0]);
  expected->set_steps_done(1);
  for (auto* trainer : {resumed.get(), expected.get()}) trainer->step(numbers(2));
  EXPECT_EQ(weights(*resumed), weights(*expected));
}

TEST(UnneededStates, AreMissedByATrainingThatNeedsThem) {
  TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto without = trainer_of(kWithout), with = trainer_of(kWith);
  const Checkpoint checkpoint = saved(*without, output);
  expect_error<DataError>([&] { restore(checkpoint, *with); }, {"linear.weight/velocity", "the checkpoint has none", "[optimizer]"});
}

TEST(UnneededStates, OfAnotherOptimizerAreRefused) {
  TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto with = trainer_of(kWith), sgd = trainer_of(SGD({.momentum = 0}));
  const Checkpoint checkpoint = saved(*with, output);
  expect_error<DataError>([&] { restore(checkpoint, *sgd); }, {"linear.weight/square", "[optimizer]"});
}

TEST(UnneededStates, ChangeNoStepByTheirAbsence) {
  const Tensor start = empty({37}), gradient = empty({37});
  fill_normal(start, 0, 1, 1);
  fill_normal(gradient, 0, 1, 2);
  const auto stepped = [&](const auto& step, size_t states) {
    OptimizerSlot slot{start.clone(), gradient, {}};
    for (size_t i = 0; i < states; ++i) slot.states.push_back(full({37}, 0.25));
    step(std::vector<OptimizerSlot>{slot});
    return slot.parameter.to_vector();
  };
  constexpr double kAlmostNone = 1e-300;  // a momentum that is there and rounds to nothing
  const auto rmsprop = [](double momentum) { return [=](const auto& slots) { rmsprop_step(slots, {0.1, 0.9, momentum, 1e-3, 0.2}); }; };
  EXPECT_EQ(stepped(rmsprop(0), 1), stepped(rmsprop(kAlmostNone), 2));
  const auto adam = [](double beta1) { return [=](const auto& slots) { adam_step(slots, {0.1, beta1, 0.99, 1e-8, 0.2, true, 3}); }; };
  EXPECT_EQ(stepped(adam(0), 1), stepped(adam(kAlmostNone), 2));
}

}  // namespace
}  // namespace sluice::parallel
