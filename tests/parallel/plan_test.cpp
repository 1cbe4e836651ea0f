#include "parallel/plan.h"

#include <gtest/gtest.h>

#include "models/amoebanet.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_graph;
using sluice::testing::tiny_transformer_options;

std::vector<DevicePtr> three() { return devices("cpu:0,cpu:1,cpu:2"); }

TEST(Plan, RefusesWhatCannotBeWithTheCure) {
  const auto graph = skip_graph();
  expect_error<UsageError>([&] { plan(graph, devices("20x meta"), {.batch = 4}); }, {"20 devices for 12 nodes", "use fewer devices"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .micro_batches = 5}); }, {"from 1 to the 4 samples"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .schedule = "1f2b"}); }, {"1f1b"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .partition = "uniforme"}); }, {"uniform"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .partition = "list", .sizes = {5, 5}}); }, {"2 numbers for 3 devices"});
  expect_error<UsageError>([&] { plan(graph, three(), {.batch = 4, .remat = "list", .remat_nodes = {"stam"}}); },
                           {"the nearest is 'stem'"});
}

TEST(Plan, NeedsShapesToCount) {
  layers::Graph graph;
  const auto x = graph.input("x");
  graph.loss(graph.add("loss", testing::Sum(), {graph.add("a", layers::Linear(3, 1), x)}));
  expect_error<UsageError>([&] { predict(graph, plan(graph, devices("cpu:0"), {.batch = 4}), AdamW({.lr = 1e-2}), 4, {}); },
                           {"sample shape of input 'x'"});
}

TEST(Plan, RefusesParametersThatTheLossDoesNotSee) {
  layers::Graph graph;
  const auto x = graph.input("x", {3});
  graph.add("lost", layers::Linear(3, 3), x);
  graph.loss(graph.add("loss", testing::Sum(), {graph.add("a", layers::Linear(3, 1), x)}));
  expect_error<UsageError>([&] { topology_of(graph); }, {"node 'lost'", "does not depend on it"});
}

TEST(Plan, AutoBalancesMeasuredOperations) {
  auto options = tiny_transformer_options();
  options.layers = 6;
  const auto graph = models::transformer_lm(options);
  const auto costs = node_costs(graph, 2, {});
  const auto chosen = plan(graph, three(), {.batch = 8, .micro_batches = 4, .partition = "auto"});
  EXPECT_LE(bottleneck(chosen.partition, costs), bottleneck(partition_uniform(static_cast<int>(costs.size()), 3), costs));
}

/// Inputs of floats once kept their costs to the device that they were loaded on, so that all of an image model's nodes were free.
TEST(Plan, CountsTheCostOfNodesThatReadPictures) {
  const auto graph = models::amoebanet({.layers = 3, .filters = 16, .classes = 4, .image_size = 32});
  const auto costs = node_costs(graph, 2, {});
  for (size_t node = 0; node < costs.size(); ++node) EXPECT_GT(costs[node], 0) << graph.nodes()[node].name;
}

TEST(Prediction, CountsParametersGradientsAndStates) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const Prediction prediction = predict(graph, plan(graph, devices("cpu:0"), {.batch = 8, .micro_batches = 2}), AdamW({.lr = 1e-2}), 8, {});
  const auto& device = prediction.devices.at(0);
  int64_t bytes = 0;
  for (const auto& parameter : graph.parameters()) bytes += Device::charged_size(4 * parameter.spec.shape.elements());
  EXPECT_EQ(device.parameter_bytes, bytes);
  EXPECT_EQ(device.gradient_bytes, bytes);
  EXPECT_EQ(device.optimizer_bytes, 2 * bytes);
  EXPECT_EQ(device.peak_bytes, device.parameter_bytes + device.gradient_bytes + device.optimizer_bytes + device.activation_peak_bytes);
  EXPECT_GT(device.activation_peak_bytes, 0);
}

TEST(Prediction, InBf16CountsMastersAndCopiesAndSmallerActivations) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const auto predicted = [&](Precision precision) {
    return predict(graph, plan(graph, devices("cpu:0"), {.batch = 8, .precision = precision}), AdamW({.lr = 1e-2}), 8, {}).devices.at(0);
  };
  const auto single = predicted(Precision::f32), half = predicted(Precision::bf16);
  int64_t copies = 0;
  for (const auto& parameter : graph.parameters()) copies += Device::charged_size(2 * parameter.spec.shape.elements());
  EXPECT_EQ(half.parameter_bytes, single.parameter_bytes + copies);
  EXPECT_EQ(half.gradient_bytes, single.gradient_bytes);
  EXPECT_EQ(half.optimizer_bytes, single.optimizer_bytes);
  EXPECT_LT(half.activation_peak_bytes, 0.7 * static_cast<double>(single.activation_peak_bytes));
}

TEST(Prediction, OfRematerializationIsSmallerAndSlower) {
  auto options = tiny_transformer_options();
  options.layers = 8;
  const auto graph = models::transformer_lm(options);
  const auto predicted = [&](const char* remat) {
    return predict(graph, plan(graph, devices("cpu:0,cpu:1"), {.batch = 32, .micro_batches = 8, .schedule = "gpipe", .remat = remat}),
                   AdamW({.lr = 1e-2}), 32, {});
  };
  const Prediction none = predicted("none"), full = predicted("full");
  EXPECT_LT(full.devices[0].activation_peak_bytes, 0.5 * static_cast<double>(none.devices[0].activation_peak_bytes));
  EXPECT_GT(full.step_seconds, none.step_seconds);
  EXPECT_GT(full.flops, none.flops);
}

TEST(Prediction, HasTheBubbleOfTheFormula) {
  layers::Graph graph;
  auto x = graph.input("image", {64});
  const auto label = graph.input("label", {}, DType::i32);
  for (int i = 0; i < 4; ++i) x = graph.add("layer" + std::to_string(i), layers::Linear(64, 64), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  const Plan chosen =
      plan(graph, devices("4x meta"), {.batch = 64, .micro_batches = 8, .schedule = "1f1b", .partition = "list", .sizes = {1, 1, 1, 2}});
  const DeviceSpeed fast_links{1e9, 1e15, 1e15, 0};
  const double bubble = predict(graph, chosen, SGD({.lr = 0.1}), 64, fast_links).bubble;
  EXPECT_NEAR(bubble, 3.0 / 11.0, 0.08) << "(K-1)/(M+K-1); the first stage computes no input gradient, the last one has the loss";
}

}  // namespace
}  // namespace sluice::parallel
