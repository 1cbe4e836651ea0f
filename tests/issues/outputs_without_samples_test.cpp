// Outputs whose first axis is not that of the samples were taken; evaluation and Predictor then joined the parts of micro-batches to nonsense,
// or failed with an axis of a concatenation that nobody had asked for.
#include <gtest/gtest.h>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/training/language_models.h"
#include "training/predictor.h"

namespace sluice::layers {
namespace {

using Function = std::function<Var(const Var&)>;

/// `width` as the trial has samples makes shapes alike that differ in what they count.
struct Regression {
  explicit Regression(const Function& end, int64_t width = 2, bool declared = true) {
    const Value x = declared ? graph.input("x", {4}) : graph.input("x"), y = declared ? graph.input("y", {width}) : graph.input("y");
    const Value made = graph.add("linear", Linear(4, width), x);
    last = graph.add("last", Lambda("end", end), made);
    loss = graph.add("loss", MeanSquaredError(), {made, y});
    graph.loss(loss);
  }
  Graph graph;
  Value last, loss;
};

void expect_refused(const Function& end, const std::string& some, const std::string& doubled, int64_t width = 2) {
  Regression model(end, width);
  expect_error<UsageError>([&] { model.graph.output(model.last); }, {"output 'last'", "Lambda 'end'", "first axis", some + " of 24 samples",
                                                                     doubled + " of 48", "a row for each sample"});
  EXPECT_TRUE(model.graph.output_nodes().empty());
}

TEST(OutputsWithoutSamples, AreRefusedWhereTheyAreNamed) {
  expect_refused([](const Var& x) { return sum(x, {0}); }, "[2]", "[2]");
  expect_refused([](const Var& x) { return sum(x, {0}, true); }, "[1, 2]", "[1, 2]");
  expect_refused([](const Var& x) { return reshape(x, {x.dim(0) * x.dim(1)}); }, "[48]", "[96]");
  expect_refused([](const Var& x) { return transpose(x, 0, 1); }, "[2, 24]", "[2, 48]");
  expect_refused([](const Var& x) { return mean(x); }, "[]", "[]");
}

TEST(OutputsWithoutSamples, AreToldFromAxesThatAreAsLongByChance) {
  expect_refused([](const Var& x) { return sum(x, {0}); }, "[24]", "[24]", 24);
  expect_refused([](const Var& x) { return transpose(x, 0, 1); }, "[24, 24]", "[24, 48]", 24);
  expect_refused([](const Var& x) { return sub(reshape(sum(x, {1}), {x.dim(0), 1}), sum(x, {1})); }, "[24, 24]", "[48, 48]");
  for (const int64_t width : {24, 48}) {
    Regression model([](const Var& x) { return scale(x, 2); }, width);
    model.graph.output(model.last);
    EXPECT_EQ(model.graph.nodes()[model.graph.output_node()].name, "last");
  }
}

TEST(OutputsWithoutSamples, AreRefusedOfTheLoss) {
  Regression model([](const Var& x) { return x; });
  expect_error<UsageError>([&] { model.graph.output(model.loss); }, {"output 'loss'", "MeanSquaredError", "[] of 24 samples"});
}

TEST(OutputsWithoutSamples, AreFineAsValuesBetweenNodes) {
  Graph graph;
  const Value x = graph.add("linear", Linear(4, 2), graph.input("x", {4}));
  const Value total = graph.add("total", Lambda("total", [](const Var& v) { return sum(v, {0}); }), x);
  const auto less = [](const Call& call) { return sub(call.inputs[0], call.inputs[1]); };
  graph.output(graph.add("rest", Lambda("rest", less, {2, 2}), {x, total}));
}

TEST(OutputsWithoutSamples, AreNamedWhenTheyRunWhereNoShapeIsDeclared) {
  Regression model([](const Var& x) { return sum(x, {0}); }, 2, false);
  model.graph.output(model.last);
  const Graph graph = model.graph.upstream_of(model.graph.value_of(model.graph.output_node()));
  training::Predictor predictor(graph, sluice::testing::drawn_weights(graph), devices("cpu:0"), {.micro_batches = 2});
  expect_error<UsageError>([&] { predictor.predict({{"x", randn({8, 4}, 1)}}); }, {"'last'", "each of 4 samples", "[2]"});
}

TEST(OutputsWithoutSamples, AreNotMissedWhereAModuleDividesTheSamples) {
  Regression model([](const Var& x) { return reshape(reshape(x, {x.dim(0) / 8, 8, x.dim(1)}), {x.dim(0), x.dim(1)}); });
  model.graph.output(model.last);
}

}  // namespace
}  // namespace sluice::layers
