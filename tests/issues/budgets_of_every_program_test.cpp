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
class BudgetsOfPrograms : public ::testing::Test {
 protected:
  BudgetsOfPrograms() { optimizer_.ema = 0.9; }

  int64_t most_bytes(const PlanPrograms::Use& use) {
    PlanPrograms programs(graph_, topology_, plan_, stage_options(plan_, optimizer_));
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
    return plan(graph_, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = kMicroBatches, .partition = PartitionRule::uniform});
  }

  layers::Graph graph_ = skip_graph();
  Topology topology_ = topology_of(graph_);
  AdamW optimizer_{{.lr = 1e-2}};
  Plan plan_ = plan_of_two(), other_plan_ = plan_of_two();
};

TEST_F(BudgetsOfPrograms, RefuseAnEvaluationBeforeItRuns) {
  constexpr int kMany = 20 * kSamples;
  PlanPrograms programs(graph_, topology_, plan_, stage_options(plan_, optimizer_));
  for (const bool with_output : {false, true})
    expect_refusal_before([&](Trainer& trainer) { trainer.evaluate(skip_batch(kMany, 5), with_output); },
                          most_bytes(programs.evaluation(shape(kMany), with_output)));
}

TEST_F(BudgetsOfPrograms, RefuseAnotherNumberOfMicroBatchesBeforeItRuns) {
  PlanPrograms programs(graph_, topology_, plan_, stage_options(plan_, optimizer_));
  const int64_t bytes = most_bytes(programs.step(shape(kSamples), 1));
  ASSERT_GT(bytes, most_bytes(programs.step(shape(kSamples)))) << "the plan's own number fits";
  expect_refusal_before([&](Trainer& trainer) { trainer.step(skip_batch(kSamples, 5), 1); }, bytes);
}

TEST_F(BudgetsOfPrograms, RefuseALargerLastMiniBatchBeforeItRuns) {
  PlanPrograms programs(graph_, topology_, plan_, stage_options(plan_, optimizer_));
  constexpr int kLarger = 8 * kSamples + 1;
  const int64_t bytes = most_bytes(programs.step(shape(kLarger)));
  ASSERT_GT(bytes, most_bytes(programs.step(shape(kSamples)))) << "the plan's own size fits";
  expect_refusal_before([&](Trainer& trainer) { trainer.step(skip_batch(kLarger, 5)); }, bytes);
}

TEST_F(BudgetsOfPrograms, RefuseOneMorePostedReceiveThanThereIsRoomFor) {
  PlanPrograms programs(graph_, topology_, plan_, stage_options(plan_, optimizer_));
  const auto on_second = [&](int ahead) {
    plan_.window = {ahead, 1};
    return peak_bytes(programs.count(programs.evaluation(shape(kSamples), false)).program)[1];
  };
  const int64_t one = on_second(1), two = on_second(2);
  ASSERT_GT(two, one) << "a receive holds its room from when it is posted";
  Trainer trainer(graph_, plan_, optimizer_, {.seed = 3});
  plan_.devices[1]->set_budget_bytes(two - 1);
  expect_error<OutOfMemory>([&] { trainer.evaluate(skip_batch(kSamples, 1)); },
                            {join("cpu:1 needs ", two, " bytes in all and lacks 1"), "asked for "});
  plan_.devices[1]->set_budget_bytes(two);
  EXPECT_NO_THROW(trainer.evaluate(skip_batch(kSamples, 1)));
}

/// Over links so slow that many micro-batches under way are worth their bytes.
TEST(AnotherNumberOfMicroBatches, IsSearchedForWithinTheBudgets) {
  constexpr int kMany = 8, kSamplesOfAll = 20 * kMany;
  const layers::Graph graph = skip_graph();
  const Topology topology = topology_of(graph);
  const AdamW optimizer({.lr = 1e-2});
  const auto made = devices("cpu:0,cpu:1");
  Plan chosen =
      plan(graph, made, {.batch = kSamplesOfAll, .micro_batches = 2, .partition = PartitionRule::uniform, .optimizer = &optimizer});
  const StageCosts costs{.forward = {1, 1},
                         .backward = {2, 2},
                         .input_gradient = {},
                         .weight_gradient = {},
                         .recompute = {},
                         .transfer = {},
                         .kept = {1000, 1000},
                         .kept_for_weights = {},
                         .links = {{20, 0}, {}, {}}};
  chosen.schedule = SearchedSchedule(search_schedule(costs, {0, 1}, chosen.micro_batches).schedule, costs);
  PlanPrograms programs(graph, topology, chosen, stage_options(chosen, optimizer));
  const auto use = programs.step(declared_shape(graph, kSamplesOfAll), kMany);
  const auto peaks_within = [&](const std::vector<int64_t>& budgets) {
    for (size_t i = 0; i < made.size(); ++i) made[i]->set_budget_bytes(budgets[i]);
    return peak_bytes(programs.count(use).program);
  };
  const auto fastest = peaks_within({kUnlimited, kUnlimited}), least = peaks_within({1, 1});
  ASSERT_LT(least[0], fastest[0]) << "there is an order that keeps less";
  const int64_t budget = (least[0] + fastest[0]) / 2;
  EXPECT_LE(peaks_within({budget, kUnlimited})[0], budget);

  Trainer trainer(graph, chosen, optimizer, {.seed = 3});
  trainer.step(skip_batch(kSamplesOfAll, 1), kMany);
  EXPECT_LE(made[0]->peak_bytes(), budget);
  made[0]->set_budget_bytes(kUnlimited);
  Trainer free_trainer(graph, chosen, optimizer, {.seed = 3});
  free_trainer.step(skip_batch(kSamplesOfAll, 1), kMany);
  EXPECT_EQ(trainer.weights_hash(), free_trainer.weights_hash());
}

}  // namespace
}  // namespace sluice::parallel
