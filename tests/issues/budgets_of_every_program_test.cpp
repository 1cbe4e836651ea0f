// Only the plan's own step was held against the budgets. An evaluation, another number of micro-batches or a larger mini-batch ran until an
// allocation failed midway, and "auto" took the fastest order for them, whatever it kept.
#include <gtest/gtest.h>

#include "parallel/plan/plan_programs.h"
#include "parallel/program/program_bytes.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 16, kMicroBatches = 4;

/// A training over two devices, and what its programs take.
class BudgetsOfPrograms : public testing::Test {
 protected:
  BudgetsOfPrograms() { optimizer_.ema = 0.9; }

  int64_t most_bytes(const PlanPrograms::Use& use) {
    PlanPrograms programs(graph_, topology_, plan_, optimizer_, stage_options(plan_, optimizer_));
    return peak_bytes(programs.count(use).program)[0];
  }
  BatchShape shape(int64_t samples) const { return declared_shape(graph_, samples); }

  /// `work` needs so many bytes on the first device: one less is refused before anything runs, as `plan` refuses a step, and changes nothing.
  void expect_refusal_before(const std::function<void(Trainer&)>& work, int64_t bytes) {
    plan_.devices[0]->set_budget_bytes(kUnlimited);
    Trainer trainer(graph_, plan_, optimizer_, {.seed = 3}), untouched(graph_, other_plan_, optimizer_, {.seed = 3});
    for (Trainer* each : {&trainer, &untouched}) each->step(skip_batch(kSamples, 1));
    Device& device = *plan_.devices[0];
    const int64_t before = device.live_bytes();
    device.set_budget_bytes(bytes - 1);
    device.reset_peak();
    expect_error<OutOfMemory>([&] { work(trainer); },
                              {join("cpu:0 needs ", bytes, " bytes in all and lacks 1"), join("a budget of ", bytes - 1)});
    EXPECT_EQ(device.peak_bytes(), before) << "nothing ran";
    EXPECT_EQ(trainer.weights_hash(), untouched.weights_hash());
    EXPECT_EQ(trainer.steps_done(), 1);

    device.set_budget_bytes(bytes);
    for (Trainer* each : {&trainer, &untouched}) {
      work(*each);
      each->step(skip_batch(kSamples, 2));
    }
    EXPECT_EQ(trainer.weights_hash(), untouched.weights_hash());
  }

  Plan plan_of_two() const {
    return plan(graph_, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = kMicroBatches, .partition = "uniform"});
  }

  layers::Graph graph_ = skip_graph();
  Topology topology_ = topology_of(graph_);
  AdamW optimizer_{{.lr = 1e-2}};
  Plan plan_ = plan_of_two(), other_plan_ = plan_of_two();
};

TEST_F(BudgetsOfPrograms, RefuseAnEvaluationBeforeItRuns) {
  constexpr int kMany = 20 * kSamples;
  PlanPrograms programs(graph_, topology_, plan_, optimizer_, stage_options(plan_, optimizer_));
  for (const bool with_output : {false, true})
    expect_refusal_before([&](Trainer& trainer) { trainer.evaluate(skip_batch(kMany, 5), with_output); },
                          most_bytes(programs.evaluation(shape(kMany), with_output)));
}

TEST_F(BudgetsOfPrograms, RefuseAnotherNumberOfMicroBatchesBeforeItRuns) {
  PlanPrograms programs(graph_, topology_, plan_, optimizer_, stage_options(plan_, optimizer_));
  const int64_t bytes = most_bytes(programs.step(shape(kSamples), 1));
  ASSERT_GT(bytes, most_bytes(programs.step(shape(kSamples)))) << "the plan's own number fits";
  expect_refusal_before([&](Trainer& trainer) { trainer.step(skip_batch(kSamples, 5), 1); }, bytes);
}

TEST_F(BudgetsOfPrograms, RefuseALargerLastMiniBatchBeforeItRuns) {
  PlanPrograms programs(graph_, topology_, plan_, optimizer_, stage_options(plan_, optimizer_));
  const int64_t bytes = most_bytes(programs.step(shape(kSamples + 1)));
  ASSERT_GT(bytes, most_bytes(programs.step(shape(kSamples)))) << "one sample less fits";
  expect_refusal_before([&](Trainer& trainer) { trainer.step(skip_batch(kSamples + 1, 5)); }, bytes);
}

}  // namespace
}  // namespace sluice::parallel
