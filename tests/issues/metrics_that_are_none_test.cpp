// A maker of metrics that gave a null pointer crashed the first evaluation, one that was empty ended it by "bad_function_call", and a metric
// called "loss" was never watched, as the loss was meant.
#include <gtest/gtest.h>

#include "parallel/plan.h"
#include "tests/expect_error.h"
#include "tests/training/point_classifier.h"
#include "training/loop.h"

namespace sluice::training {
namespace {

/// Runs one step and an evaluation with the metrics.
void train_with(const MetricMakers& metrics) {
  const layers::Graph graph = point_classifier();
  parallel::Trainer trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 8}), SGD({}));
  Loop(trainer, point_dataset(), {.steps = 1, .batch = 8, .metrics = metrics}).run();
}

TEST(MetricsThatAreNone, AreRefusedByName) {
  expect_error<UsageError>([] { train_with({{"mine", {}}}); }, {"LoopOptions::metrics", "'mine'", "got none"});
  expect_error<UsageError>([] { train_with({{"mine", [] { return std::shared_ptr<Metric>(); }}}); }, {"metric 'mine'", "null pointer"});
}

TEST(MetricsThatAreNone, AreNotCalledAsTheLossIs) {
  const auto metric = mean_of([](const Tensor&, const Batch&) { return 1.0; });
  expect_error<UsageError>([&] { train_with({{"loss", metric}}); }, {"LoopOptions::metrics", "'loss'", "LoopOptions::watched"});
}

/// Said that the model asks for the input, which has none of that name.
TEST(MetricsThatAreNone, OfWhatTheDataSetHasNotAreNamed) {
  expect_error<UsageError>([] { train_with({{"mine", accuracy("labels")}}); }, {"input 'labels'", "metric 'mine'"});
}

}  // namespace
}  // namespace sluice::training
