#include "training/predictor.h"

#include <gtest/gtest.h>

#include "layers/batch_norm.h"
#include "layers/cross_entropy.h"
#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace sluice::training {
namespace {

/// Logits of a trained model with running statistics; the label is read by the loss alone.
layers::Graph classifier() {
  layers::Graph graph;
  const auto image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  auto x = graph.add("hidden", layers::Linear(6, 8), image);
  x = graph.add("norm", layers::BatchNorm(8), x);
  x = graph.add("relu", layers::ReLU(), x);
  const auto logits = graph.add("logits", layers::Linear(8, 5), x);
  graph.output(logits);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, label}));
  return graph;
}

struct Trained {
  Trained() : graph(classifier()), trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 7}), AdamW({.lr = 1e-2})) {
    const Tensor images = empty({7, 6});
    fill_normal(images, 0, 1, 5);
    batch = {{"image", images}, {"label", tensor_of({0, 1, 2, 3, 4, 0, 1}, {7}, DType::i32)}};
    for (int step = 0; step < 3; ++step) trainer.step(batch_of(batch));
  }
  layers::Graph graph;
  parallel::Trainer trainer;
  std::map<std::string, Tensor> batch;
};

TEST(Predictor, GivesTheOutputsOfAnEvaluationOverAnyNumberOfDevices) {
  Trained model;
  const auto expected = model.trainer.evaluate(batch_of(model.batch), true).output.to_vector();
  for (const char* on : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5"})
    for (const int micro_batches : {1, 3}) {
      Predictor predictor(model.graph, model.trainer.model(), devices(on), {.micro_batches = micro_batches});
      const auto outputs = predictor.predict({{"image", model.batch.at("image")}}).to_vector();
      if (micro_batches == 1) {
        EXPECT_EQ(outputs, expected) << on;
      }
      ASSERT_EQ(outputs.size(), expected.size());
      for (size_t i = 0; i < outputs.size(); ++i) EXPECT_NEAR(outputs[i], expected[i], 1e-5) << on;
    }
}

TEST(Predictor, ReadsACheckpointOrTheNewestOfAFolder) {
  const TemporaryFolder folder;
  Trained model;
  parallel::OutputFolder output(folder.path() / "run");
  const auto saved = output.save(model.trainer, "", {}, 3);
  const auto expected = model.trainer.evaluate(batch_of(model.batch), true).output.to_vector();
  for (const auto& path : {saved, output.path()}) {
    Predictor predictor(model.graph, parallel::find_checkpoint(path), devices("cpu:0,cpu:1"));
    EXPECT_EQ(predictor.predict({{"image", model.batch.at("image")}}).to_vector(), expected) << path;
  }
  expect_error<DataError>([&] { parallel::find_checkpoint(folder.path() / "none"); }, {"none", "found none"});
}

/// What "hidden" and "norm" make, beside the logits.
TEST(Predictor, GivesSeveralOutputsByTheNamesOfTheirNodes) {
  Trained model;
  layers::Graph graph;
  const auto image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  const auto hidden = graph.add("hidden", layers::Linear(6, 8), image);
  const auto norm = graph.add("norm", layers::BatchNorm(8), hidden);
  const auto logits = graph.add("logits", layers::Linear(8, 5), graph.add("relu", layers::ReLU(), norm));
  for (const auto& output : {logits, hidden, norm, logits}) graph.output(output);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, label}));
  EXPECT_EQ(graph.output_nodes(), (std::vector<int>{3, 0, 1}));
  const auto weights = model.trainer.model();
  const Tensor x = model.batch.at("image");
  std::map<std::string, std::vector<double>> expected;
  for (const char* name : {"hidden", "norm", "logits"}) {
    const int node = name[0] == 'h' ? 0 : name[0] == 'n' ? 1 : 3;
    parallel::InferencePipeline alone(graph.upstream_of(graph.value_of(node)), devices("cpu:0"), weights, {});
    expected[name] = alone.run(batch_of({{"image", x}})).to_vector();
  }
  const auto numbers_of = [](const std::map<std::string, Tensor>& outputs) {
    std::map<std::string, std::vector<double>> numbers;
    for (const auto& [name, tensor] : outputs) numbers[name] = tensor.to_vector();
    return numbers;
  };
  for (const char* on : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2,cpu:3"}) {
    Predictor predictor(graph, weights, devices(on), {.micro_batches = 1});
    EXPECT_EQ(numbers_of(predictor.predict_all({{"image", x}})), expected) << on;
    EXPECT_EQ(predictor.predict({{"image", x}}).to_vector(), expected.at("logits")) << "the first one";
    for (size_t device = 0; device < predictor.pipeline().devices().size(); ++device)
      EXPECT_EQ(predictor.pipeline().devices()[device]->peak_bytes(), predictor.pipeline().predicted_peak_bytes()[device]) << on;
    Predictor in_parts(graph, weights, devices(on), {.micro_batches = 3});
    for (const auto& [name, output] : in_parts.predict_all({{"image", x}})) {
      const auto values = output.to_vector();
      ASSERT_EQ(values.size(), expected.at(name).size());
      for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected.at(name)[i], 1e-5) << name;
    }
  }
  parallel::Trainer trainer(graph, parallel::plan(graph, devices("cpu:0,cpu:1"), {.batch = 7}), AdamW({.lr = 1e-2}));
  const auto evaluation = trainer.evaluate(batch_of(model.batch), true);
  EXPECT_EQ(evaluation.outputs.size(), 3u);
  EXPECT_EQ(evaluation.outputs.at("logits").to_vector(), evaluation.output.to_vector());
  EXPECT_EQ(evaluation.outputs.at("hidden").shape(), Shape({7, 8}));
}

TEST(Predictor, TakesAnyNumberOfSamplesAndTheBytesThatItPredicts) {
  Trained model;
  Predictor predictor(model.graph, model.trainer.model(), devices("cpu:0,cpu:1"), {.micro_batches = 2, .stages = {1, 3}});
  EXPECT_EQ(predictor.pipeline().stage_sizes(), (std::vector<int>{1, 3}));
  for (const int64_t samples : {7, 1, 64, 5}) {
    const Tensor images = empty({samples, 6});
    fill_normal(images, 0, 1, 6);
    EXPECT_EQ(predictor.predict({{"image", images}}).shape(), (Shape{samples, 5}));
  }
  for (size_t device = 0; device < 2; ++device)
    EXPECT_EQ(predictor.pipeline().devices()[device]->peak_bytes(), predictor.pipeline().predicted_peak_bytes()[device]);
}

TEST(Predictor, IsRefusedBeforeItRunsBeyondABudget) {
  Trained model;
  const auto device = make_device("cpu:0", {.budget_bytes = 64 << 10});
  Predictor predictor(model.graph, model.trainer.model(), {device});
  expect_error<OutOfMemory>([&] { predictor.predict({{"image", empty({4000, 6})}}); }, {"cpu:0", "lacks"});
  EXPECT_EQ(predictor.predict({{"image", zeros({2, 6})}}).shape(), (Shape{2, 5}));
}

TEST(Predictor, SaysWhatItNeeds) {
  Trained model;
  const auto weights = model.trainer.model();
  Predictor predictor(model.graph, weights, devices("cpu:0"));
  const Tensor images = zeros({2, 6});
  expect_error<UsageError>([&] { predictor.predict({{"imagee", images}}); }, {"no input 'imagee'", "'image'"});
  expect_error<UsageError>([&] { predictor.predict({{"image", images}, {"label", images}}); }, {"no input 'label'"});
  expect_error<UsageError>([&] { predictor.predict({}); }, {"needs input 'image'"});
  expect_error<UsageError>([&] { predictor.predict({{"image", zeros({2, 7})}}); }, {"node 'hidden'", "[2, 7]"});
  auto less = weights, other = weights;
  less.erase("logits.weight");
  other["logits.weight"] = zeros({5, 9});
  expect_error<UsageError>([&] { Predictor(model.graph, less, devices("cpu:0")); }, {"'logits.weight'"});
  expect_error<UsageError>([&] { Predictor(model.graph, other, devices("cpu:0")); }, {"'logits.weight' needs shape", "9"});
  expect_error<UsageError>([&] { Predictor(model.graph, weights, devices("cpu:0,cpu:1"), {.stages = {1, 2}}); }, {"4 nodes", "3"});
  expect_error<UsageError>([&] { Predictor(model.graph, weights, devices("cpu:0"), {.stages = {1, 3}}); }, {"1 devices, got 2"});
  expect_error<UsageError>([&] { Predictor(model.graph, weights, {}); }, {"at least one device"});
  expect_error<UsageError>([&] { Predictor(model.graph, weights, devices("meta:0")); }, {"cpu or cuda devices, got meta:0"});
}

}  // namespace
}  // namespace sluice::training
