// Answers that were wrong, missing or destroyed without a word.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/backward.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/operators.h"
#include "autograd/ops/reduction.h"
#include "core/elements.h"
#include "core/file/safetensors.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"
#include "core/random.h"
#include "data/loader.h"
#include "data/map_dataset.h"
#include "data/tensor_dataset.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "layers/loss_sum.h"
#include "layers/losses.h"
#include "parallel/inference.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"
#include "training/loop.h"
#include "training/metrics/classification.h"
#include "training/predictor.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SilentAnswers, ExpReachesZero) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor y =
        exp(tensor_of({-kInfinity, -1000, 0, std::nan(""), -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity}, {9}, dtype));
    EXPECT_EQ(y.to_vector()[0], 0);
    EXPECT_EQ(y.to_vector()[1], 0);
    EXPECT_EQ(y.to_vector()[2], 1);
    EXPECT_TRUE(std::isnan(y.to_vector()[3]));
    EXPECT_EQ(softplus(tensor_of({-kInfinity}, {1}, dtype)).item(), 0);
  }
}

double accuracy_of(const Tensor& logits, const std::vector<double>& labels) {
  const auto metric = training::accuracy()();
  const auto count = static_cast<int64_t>(labels.size());
  metric->add(logits, batch_of({{"label", tensor_of(labels, {count}, DType::i32)}}));
  return metric->value();
}

TEST(SilentAnswers, AScoreOfNaNIsRightInNoClass) {
  for (const double label : {0, 1, 2}) {
    for (const std::vector<double>& row : {std::vector{std::nan(""), std::nan(""), std::nan("")}, {1, std::nan(""), 2}}) {
      training::Classification of_nothing({"a", "b", "c"});
      of_nothing.add(tensor_of(row, {1, 3}), full({1}, label, DType::i32));
      of_nothing.add(tensor_of({1, 2, 3}, {1, 3}), full({1}, 2, DType::i32));
      EXPECT_EQ(of_nothing.samples(), 2);
      EXPECT_EQ(of_nothing.top(1), 0.5);
      EXPECT_EQ(of_nothing.top(3), 0.5);
      EXPECT_EQ(of_nothing.confusion(), (std::vector<std::vector<int64_t>>{{0, 0, 0}, {0, 0, 0}, {0, 0, 1}}));
      EXPECT_EQ(of_nothing.mean_iou(), 0.5);  // of the label 0 of 1, or where both are of one 1 of 2
      EXPECT_EQ(accuracy_of(tensor_of(row, {1, 3}), {label}), 0);
    }
  }
  EXPECT_EQ(accuracy_of(tensor_of({1, 2, 3, 3, 2, 2}, {2, 3}), {2, 0}), 1);
}

TEST(SilentAnswers, ALabelThatIsNoClassIsRefusedByEveryMetric) {
  for (const double label : {-1, 3, 100}) {
    expect_error<UsageError>([&] { accuracy_of(zeros({2, 3}), {0, label}); }, {"accuracy", "labels from 0 to 2", "-100", join(label)});
    training::Classification classes({"a", "b", "c"});
    expect_error<UsageError>(
        [&] {
          classes.add(zeros({1, 3}), full({1}, label, DType::i32));
        },
        {"classification", "labels from 0 to 2", join(label)});
  }
  EXPECT_EQ(accuracy_of(zeros({2, 3}), {0, -100}), 1);
}

TEST(SilentAnswers, ResultsThatRepeatElementsAreRefused) {
  const Tensor a = ones({3, 4}), b = ones({4, 5}), batch = ones({2, 3, 4});
  for (const Tensor& c : {zeros({1, 5}).expand({3, 5}), zeros({3, 1}).expand({3, 5})})
    EXPECT_THROW(matmul_into(a, b, c, false, false, 1), UsageError);
  expect_error<UsageError>(
      [&] {
        matmul_into(batch, b, zeros({3, 5}).expand({2, 3, 5}), false, false, 1);
      },
      {"matmul_into", "expand()", "clone()"});
  EXPECT_THROW(add_into(zeros({1}).expand({3}), ones({3})), UsageError);
  EXPECT_THROW(copy(ones({3}), zeros({1}).expand({3})), UsageError);
  EXPECT_THROW(fill(zeros({1}).expand({3}), 1), UsageError);
}

TEST(SilentAnswers, AuxiliaryLogitsOfOtherClassesAreRefused) {
  layers::Graph graph;
  const auto x = graph.input("x", {4}), label = graph.input("label", {}, DType::i32);
  const auto logits = graph.add("logits", layers::Linear(4, 3), x), wider = graph.add("wider", layers::Linear(4, 7), x);
  expect_error<UsageError>(
      [&] {
        graph.add("loss", layers::CrossEntropy(0, 0.3), {logits, label, wider});
      },
      {"CrossEntropy", "auxiliary", "3]", "7]"});
}

TEST(SilentAnswers, GradientsAreOfLeavesAndOfEachThatIsAskedFor) {
  const Var x = Var::parameter(tensor_of({2}, {1}));
  const auto twice = gradients(x * 3, ones({1}), {x, x});
  EXPECT_EQ(twice[0].item(), 3);
  EXPECT_EQ(twice[1].item(), 3);
  const Var h = exp(x);
  expect_error<UsageError>([&] { gradients(h * h, ones({1}), {h}); }, {"gradients: needs leaves", "the result of 'unary'", "number 0"});
  EXPECT_FALSE(gradients(x * 2, ones({1}), {Var(ones({1}))})[0].defined());
  expect_error<UsageError>([&] { Var::parameter(tensor({1, 3})); }, {"Var::parameter", "floating", "i32"});
}

TEST(SilentAnswers, BracesAfterElementsAreAShape) {
  const std::vector<float> none;
  EXPECT_EQ(tensor(none, {0, 2}).shape(), (Shape{0, 2}));
  EXPECT_EQ(tensor(std::vector<float>{1, 2}, default_device()).shape(), Shape{2});
}

TEST(SilentAnswers, IntegersAreInTheirRange) {
  expect_error<UsageError>([] { tensor_of({1.5, 300}, {2}, DType::u8); }, {"tensor_of", "range of u8", "got 300"});
  expect_error<UsageError>([] { full({2}, -1, DType::u8); }, {"full", "range of u8", "got -1"});
  expect_error<UsageError>([] { full({2}, std::nan(""), DType::i32); }, {"range of i32", "nan"});
  EXPECT_EQ(tensor_of({1.5, 255.5, -0.5}, {3}, DType::u8).to_vector(), (std::vector<double>{1, 255, 0}));
}

TEST(SilentAnswers, WhatIsMissingHasAMessage) {
  expect_error<UsageError>([] { data::Loader(nullptr, {.batch = 2}); }, {"loader: needs a data set"});
  expect_error<UsageError>([] { data::MapDataset(data::DatasetPtr{}, std::map<std::string, data::SampleFunction>{}); },
                           {"map dataset: needs a data set"});
  expect_error<UsageError>([] { zeros({2}, DType::f32, nullptr); }, {"needs a device"});
}

data::DatasetPtr points() {
  return std::make_shared<data::TensorDataset>(data::TensorDataset::Inputs{{"x", randn({32, 4}, 1)}, {"label", zeros({32}, DType::i32)}});
}

std::unique_ptr<parallel::Trainer> trainer(const parallel::TrainerOptions& options = {}) {
  layers::Graph graph;
  const auto x = graph.input("x", {4}), label = graph.input("label", {}, DType::i32);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {graph.add("y", layers::Linear(4, 2), x), label}));
  return std::make_unique<parallel::Trainer>(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 16}), AdamW({.lr = 1e-2}), options);
}

TEST(SilentAnswers, TrainersRefuseWhatWasPassedOver) {
  expect_error<UsageError>([] { trainer({.clip = -1}); }, {"TrainerOptions::clip (optimizer.clip)", "got -1"});
  expect_error<UsageError>([] { trainer({.clip = std::nan("")}); }, {"TrainerOptions::clip (optimizer.clip)", "nan"});
  const auto of = trainer();
  expect_error<UsageError>([&] { of->step(Batch{.samples = 16, .load = {}}); }, {"batch: needs a function that loads its inputs"});
  expect_error<UsageError>([&] { training::Loop(*of, nullptr, {.steps = 1, .batch = 16}); }, {"training loop: needs a data set"});
}

/// Means of such weights grew without bound where their sum came near 0, and within a sum of losses a sum below 0 turned the gradient about.
TEST(SilentAnswers, WeightsOfALossAreFiniteAndNotBelowZero) {
  layers::Graph alone, in_a_sum;
  for (layers::Graph* graph : {&alone, &in_a_sum}) {
    const auto x = graph->input("x", {4}), target = graph->input("target", {1}), weight = graph->input("weight", {});
    const auto y = graph->add("y", layers::Linear(4, 1), x);
    if (graph == &alone)
      graph->loss(graph->add("loss", layers::MeanSquaredError(), {y, target, weight}));
    else
      graph->loss(graph->add("loss", layers::LossSum().with("part", layers::MeanSquaredError(), 1, {0, 1, 2}), {y, target, weight}));
  }
  for (const layers::Graph* graph : {&alone, &in_a_sum}) {
    parallel::Trainer of(*graph, parallel::plan(*graph, devices("cpu:0"), {.batch = 3}), SGD({.lr = 0.1}));
    const auto weighed = [](const std::vector<double>& weights) {
      return batch_of({{"x", randn({3, 4}, 1)}, {"target", randn({3, 1}, 2)}, {"weight", tensor_of(weights, {3})}});
    };
    const std::string hash = of.weights_hash();
    for (const double wrong : {-0.5, -3.0, std::nan(""), kInfinity}) {
      const std::initializer_list<std::string> words{"MeanSquaredError", "weights that are finite and at least 0", join("got ", wrong)};
      expect_error<UsageError>([&] { of.step(weighed({1, wrong, 1})); }, words);
      expect_error<UsageError>([&] { of.evaluate(weighed({1, wrong, 1})); }, words);
    }
    EXPECT_EQ(of.weights_hash(), hash);
    EXPECT_FALSE(of.step(weighed({1, 0, 1e30})).was_skipped);
  }
}

TEST(SilentAnswers, FilesOfACallerLeaveACheckpointWhole) {
  const TemporaryFolder folder;
  const auto of = trainer();
  parallel::OutputFolder output(folder.path() / "run");
  for (const char* name : {"model.safetensors", "optimizer-00001-of-00002.safetensors", "state.json", "../x", "sub/notes.txt", "..", ""}) {
    expect_error<UsageError>([&] { output.save(*of, "", {{name, "y"}}, 1); }, {"further files", name});
    expect_error<UsageError>(
        [&] {
          training::Loop(*of, points(), {.steps = 1, .batch = 16, .files = {{name, "y"}}});
        },
        {"further files", name});
  }
  expect_error<UsageError>(
      [&] {
        training::Loop(*of, points(), {.steps = 1, .batch = 16, .files = {{"evaluations.json", "y"}}});
      },
      {"LoopOptions::files", "evaluations.json"});
  const auto saved = output.save(*of, "", {{"labels.txt", "two"}}, 1);
  EXPECT_NO_THROW(parallel::open_checkpoint(saved));
}

/// They ended a training at its first save, with an error of the JSON library.
TEST(SilentAnswers, TextsThatNoCheckpointCanHoldAreRefusedBeforeTheFirstStep) {
  const TemporaryFolder folder;
  const auto of = trainer();
  parallel::OutputFolder output(folder.path() / "run");
  const std::string latin = "# M\xfcller", utf8 = "# M\u00fcller";
  expect_error<UsageError>([&] { output.save(*of, latin, {}, 1); }, {"checkpoint: needs a config in UTF-8", "byte 3 "});
  expect_error<UsageError>([&] { output.save(*of, "", {{latin, ""}}, 1); }, {"further files in UTF-8", "byte 3 "});
  expect_error<UsageError>([&] { training::Loop(*of, points(), {.steps = 1, .batch = 16, .config = latin}); },
                           {"checkpoint: needs a config in UTF-8", "byte 3 "});
  EXPECT_EQ(parallel::open_checkpoint(output.save(*of, utf8, {{utf8, latin}}, 1)).config, utf8);
}

TEST(SilentAnswers, AnInputOfABatchIsGivenOnce) {
  expect_error<UsageError>([] { batch_of({{"x", ones({2})}, {"x", zeros({2})}}); }, {"input 'x' twice"});
}

TEST(SilentAnswers, SamplesHaveTheRankThatIsDeclared) {
  layers::Graph net;
  const auto x = net.input("x", {4});
  net.output(net.add("y", layers::Linear(4, 3), x));
  const parallel::Weights weights{{"y.weight", ones({3, 4})}, {"y.bias", zeros({3})}};
  training::Predictor predictor(net, weights, devices("cpu:0"));
  for (const Shape& shape : {Shape{4}, Shape{2, 5, 4}})
    expect_error<UsageError>([&] { predictor.predict({{"x", ones(shape)}}); }, {"input 'x'", "[4]", "Graph::input"});
}

TEST(SilentAnswers, SafetensorsThatCannotBeReadAreNotWritten) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name) { write_safetensors((folder.path() / "x").string(), {{name, ones({1})}}); };
  expect_error<UsageError>([&] { write("__metadata__"); }, {"'__metadata__'"});
  expect_error<UsageError>([&] { write("\xff"); }, {"UTF-8"});
}

}  // namespace
}  // namespace sluice
