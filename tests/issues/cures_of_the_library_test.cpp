// Errors of checkpoints and output folders told a program that calls the library what to write into a config, and named options of the
// command line.
#include <gtest/gtest.h>

#include "layers/combine.h"
#include "layers/cross_entropy.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "layers/mixture_of_experts.h"
#include "parallel/checkpoint.h"
#include "parallel/plan.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"
#include "tests/training/point_classifier.h"
#include "training/predictor.h"

namespace sluice::parallel {
namespace {

Trainer trainer_of(const layers::Graph& graph, const Optimizer& optimizer) {
  return {graph, plan(graph, devices("cpu:0"), {.batch = 4}), optimizer};
}

TEST(CuresOfTheLibrary, NameItsOwnOptionsForACheckpointOfAnotherTraining) {
  const TemporaryFolder folder;
  const layers::Graph graph = training::point_classifier();
  const Trainer plain = trainer_of(graph, SGD({}));
  const Checkpoint checkpoint = open_checkpoint(OutputFolder(folder.path() / "run").save(plain, "", {}, 1));
  Trainer with_momentum = trainer_of(graph, SGD({.momentum = 0.9}));
  expect_error<DataError>([&] { restore(checkpoint, with_momentum); }, {"Graph::freeze", "parallel::initialize", "--init"});
  SGD averaged({});
  averaged.ema = 0.9;
  Trainer with_averages = trainer_of(graph, averaged);
  expect_error<DataError>([&] { restore(checkpoint, with_averages); },
                          {"Optimizer::ema (optimizer.ema)", "parallel::initialize", "--init"});
}

TEST(CuresOfTheLibrary, NameItsOwnOptionsForAnOutputFolder) {
  expect_error<ResourceError>([] { OutputFolder("/proc/nowhere"); }, {"LoopOptions::output, [output] dir"});
}

TEST(CuresOfTheLibrary, NameTheStagesOfAnInference) {
  const layers::Graph graph = training::point_classifier();
  const auto predictor = [&](const std::vector<int>& stages) {
    const Trainer trainer = trainer_of(graph, SGD({}));
    training::Predictor(graph, trainer.model(), devices("cpu:0,cpu:1"), {.stages = stages});
  };
  expect_error<UsageError>([&] { predictor({1}); }, {"InferenceOptions::stages: the sizes must sum", "nodes", "got the sum 1"});
  expect_error<UsageError>([&] { predictor({0, 2}); }, {"InferenceOptions::stages: every stage needs", "got 0"});
  expect_error<UsageError>([&] { predictor({1, 1, 1}); }, {"InferenceOptions::stages", "2 devices", "got 3"});
  expect_error<UsageError>([&] { plan(graph, devices("cpu:0"), {.batch = 4, .partition = Partition{{99}}}); },
                           {"PlanOptions::partition: the sizes must sum", "got the sum 99"});
}

TEST(CuresOfTheLibrary, NameTheTieOfAUseWithoutGradient) {
  layers::Graph graph;  // of inputs without shapes, so that nothing is known of gradients beforehand
  const auto x = graph.input("x"), label = graph.input("label");
  const auto student = graph.add("student", layers::Linear(6, 5), x), teacher = graph.add("teacher", layers::Linear(6, 5), x);
  const auto target = graph.add("target", layers::Lambda("detach", [](const Var& value) { return Var(value.value()); }), teacher);
  const auto both = graph.add("both", layers::Add(), {student, target});
  graph.loss(graph.add("loss", layers::CrossEntropy(), {both, label}));
  graph.tie("student.weight", "teacher.weight");
  graph.tie("student.bias", "teacher.bias");
  Plan plan;
  plan.devices = devices("cpu:0,cpu:1");
  plan.partition = Partition{{5}};
  plan.rematerialize.assign(5, false);
  plan.replication = {.replicas = 2, .fold_blocks = 2};
  plan.micro_batches = 2;
  Trainer trainer(graph, plan, SGD({}));
  expect_error<UsageError>(
      [&] {
        trainer.step(batch_of({{"x", ones({4, 6})}, {"label", zeros({4}, DType::i32)}}));
      },
      {"'student.", "node 'teacher'", "tied", "remove the tie"});
}

TEST(CuresOfTheLibrary, NameTheDevicesOfATrainerWithoutValues) {
  const layers::Graph graph = training::point_classifier();
  const Trainer counting(graph, plan(graph, devices("meta:0"), {.batch = 4}), SGD({}));
  const TemporaryFolder folder;
  expect_error<UsageError>([&] { counting.weights_hash(); }, {"weights: need values", "meta:0", "make the trainer on cpu or cuda"});
  expect_error<UsageError>([&] { OutputFolder(folder.path() / "run").save(counting, "", {}, 1); }, {"weights: need values"});
}

TEST(CuresOfTheLibrary, NameTheTokensThatExpertsLack) {
  const layers::Experts experts({.width = 4, .inner = 8, .experts = 2});
  std::vector<Var> parameters;
  for (const auto& spec : experts.parameters()) parameters.emplace_back(ones(spec.shape));
  const auto run = [&](const Shape& tokens) {
    const std::vector<Var> inputs{Var(ones(tokens.appended(4))), Var(ones(tokens.appended(2)))};
    return experts.forward({.inputs = inputs, .parameters = parameters, .random = {}}).shape();
  };
  expect_error<UsageError>([&] { run({2, 0}); }, {"Experts: needs at least one token", "[2, 0, 4]"});
  EXPECT_EQ(run({0, 3}), Shape({0, 3, 4}));
}

}  // namespace
}  // namespace sluice::parallel
