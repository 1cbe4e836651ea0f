// After a step that was skipped the bf16 copies of weights kept the rounding of the step before, until something else made them anew: a
// checkpoint, another plan, or an evaluation of moving averages. So these changed the training.
#include <gtest/gtest.h>

#include <limits>

#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/checkpoint.h"
#include "parallel/group/thread_group.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

constexpr int kSamples = 4;

/// The last product reads the weight of the first one, from another device.
layers::Graph tied_graph() {
  layers::Graph graph;
  const auto x = graph.input("x", {8}), target = graph.input("target", {8});
  auto h = graph.add("first", layers::Linear(8, 8), x);
  h = graph.add("gelu", layers::GELU(), h);
  h = graph.add("last", layers::Linear(8, 8), h);
  graph.tie("first.weight", "last.weight");
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {h, target}));
  return graph;
}

Batch batch_of_seed(uint64_t seed) { return batch_of({{"x", randn({kSamples, 8}, seed)}, {"target", randn({kSamples, 8}, seed + 100)}}); }

Batch infinite_batch() {
  return batch_of({{"x", full({kSamples, 8}, std::numeric_limits<double>::infinity())}, {"target", zeros({kSamples, 8})}});
}

struct Job {
  std::string devices = "cpu:0";
  int replicas = 1;
  double ema = 0;
};

Plan plan_of(const Job& job) {
  return plan(tied_graph(), devices(job.devices),
              {.batch = kSamples,
               .micro_batches = 2,
               .partition = PartitionRule::uniform,
               .precision = Precision::bf16,
               .replicas = job.replicas,
               .fold_blocks = 2});
}

std::unique_ptr<Trainer> trainer_of(const Job& job, Group* group = nullptr) {
  SGD optimizer({.lr = 0.1});
  optimizer.ema = job.ema;
  TrainerOptions options{.seed = 1, .timeout_seconds = 60, .stochastic_rounding = true, .on_nonfinite = OnNonfinite::skip};
  if (group) options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), group);
  return std::make_unique<Trainer>(tied_graph(), plan_of(job), optimizer, options);
}

struct Outcome {
  double loss;
  std::string hash;
  bool operator==(const Outcome&) const = default;
};

void skip_a_step(Trainer& trainer) {
  trainer.step(batch_of_seed(1));
  EXPECT_TRUE(trainer.step(infinite_batch()).was_skipped);
}

Outcome of_next_step(Trainer& trainer) {
  const double loss = trainer.step(batch_of_seed(3)).loss;
  return {loss, trainer.weights_hash()};
}

Outcome undisturbed(const Job& job, Group* group = nullptr) {
  const auto trainer = trainer_of(job, group);
  skip_a_step(*trainer);
  return of_next_step(*trainer);
}

TEST(SkippedStepsThatRound, GoOnAsFromACheckpoint) {
  const TemporaryFolder folder;
  const auto trainer = trainer_of({}), fresh = trainer_of({});
  skip_a_step(*trainer);
  restore(open_checkpoint(OutputFolder(folder.path() / "run").save(*trainer, "", {}, 1)), *fresh);
  EXPECT_EQ(of_next_step(*fresh), undisturbed({}));
}

TEST(SkippedStepsThatRound, GoOnAsByAnotherPlan) {
  const auto trainer = trainer_of({});
  skip_a_step(*trainer);
  trainer->move_to(plan_of({.devices = "cpu:0,cpu:1"}));
  EXPECT_EQ(of_next_step(*trainer), undisturbed({}));
}

TEST(SkippedStepsThatRound, GoOnAsAfterAnEvaluation) {
  const auto trainer = trainer_of({.ema = 0.9});
  skip_a_step(*trainer);
  trainer->evaluate(batch_of_seed(9));
  EXPECT_EQ(of_next_step(*trainer), undisturbed({.ema = 0.9}));
}

TEST(SkippedStepsThatRound, GiveOneAnswerWhateverTheDevicesReplicasAndRanks) {
  const Outcome one = undisturbed({});
  for (const Job& job : {Job{"cpu:0,cpu:1"}, Job{"cpu:0,cpu:1", 2}}) {
    EXPECT_EQ(undisturbed(job), one) << job.replicas;
    run_ranks(2, [&](Group& group) { EXPECT_EQ(undisturbed(job, &group), one) << job.replicas; });
  }
}

/// They counted in the correction of averages that they had not changed, so the steps after them were too small.
TEST(SkippedSteps, AreNoStepsOfTheOptimizerNorOfTheAverages) {
  const auto graph = tied_graph();
  const Plan plan = parallel::plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples});
  for (const char* name : {"adam", "adamw", "adafactor"}) {
    SCOPED_TRACE(name);
    const auto optimizer = make_optimizer(name, {.lr = 0.01});
    optimizer->ema = 0.9;
    const auto make = [&] { return std::make_unique<Trainer>(graph, plan, *optimizer, TrainerOptions{.on_nonfinite = OnNonfinite::skip}); };
    const auto never = make(), skipped = make(), resumed = make();
    for (int step = 0; step < 3; ++step) EXPECT_TRUE(skipped->step(infinite_batch()).was_skipped);
    const TemporaryFolder folder;
    restore(open_checkpoint(OutputFolder(folder.path() / "run").save(*skipped, "", {}, 1)), *resumed);
    for (const auto& trainer : {never.get(), skipped.get(), resumed.get()})
      for (const uint64_t seed : {3, 4}) trainer->step(batch_of_seed(seed));
    for (const auto& trainer : {skipped.get(), resumed.get()}) {
      EXPECT_EQ(trainer->steps_done(), 5);
      EXPECT_EQ(trainer->weights_hash(), never->weights_hash());
      EXPECT_EQ(trainer->evaluate(batch_of_seed(9)).loss_sum, never->evaluate(batch_of_seed(9)).loss_sum);
    }
  }
}

}  // namespace
}  // namespace sluice::parallel
