#include <gtest/gtest.h>

#include <limits>

#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

/// What a user's own optimizer and options out of range are told, which were taken without a word.
namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;

constexpr int64_t kSamples = 4;

Plan plan_over(const layers::Graph& graph, const char* list) { return plan(graph, devices(list), {.batch = kSamples, .micro_batches = 2}); }

/// Inherits clone(), which makes an SGD.
struct Half : SGD {
  Half() : SGD({.lr = 1}) {}
  std::string name() const override { return "half"; }
};
struct Nothing : SGD {
  Nothing() : SGD({.lr = 1}) {}
  std::unique_ptr<Optimizer> clone() const override { return nullptr; }
};

TEST(OutsideOptimizer, IsRefusedWhereItsCloneIsOfAnotherClass) {
  const auto graph = image_graph();
  const Plan one = plan_over(graph, "cpu:0");
  expect_error<UsageError>([&] { Trainer(graph, one, Half()); }, {"Optimizer::clone", "'half'", "'sgd'", "make_unique"});
  expect_error<UsageError>([&] { Trainer(graph, one, Nothing()); }, {"Optimizer::clone", "null pointer"});
}

TEST(OptionsOfATrainer, MayWaitForEver) {
  const auto graph = image_graph();
  Trainer trainer(graph, plan_over(graph, "cpu:0,cpu:1"), SGD({.lr = 1e-2}), {.timeout_seconds = std::numeric_limits<double>::infinity()});
  EXPECT_GT(trainer.step(image_batch(kSamples, 1)).loss, 0);
}

TEST(OptionsOfATrainer, AreRefusedOutOfRange) {
  const auto graph = image_graph();
  const Plan one = plan_over(graph, "cpu:0");
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    expect_error<UsageError>([&] { Trainer(graph, one, SGD({.lr = 1e-2}), {.timeout_seconds = seconds}); },
                             {"TrainerOptions::timeout_seconds", "pipeline.timeout"});
  Trainer trainer(graph, one, SGD({.lr = 1e-2}));
  expect_error<UsageError>([&] { trainer.step(image_batch(kSamples, 1), -7); }, {"micro-batches", "-7"});
  expect_error<UsageError>([&] { trainer.set_steps_done(-5); }, {"set_steps_done", "-5"});
  expect_error<UsageError>([&] { trainer.set_steps_done(kMostSteps + 1); }, {"set_steps_done", "4294967296"});
}

}  // namespace
}  // namespace sluice::parallel
