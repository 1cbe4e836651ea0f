// Steps 2^32 apart had the same random masks, and a training could be saved at a step at which its checkpoint was refused.
#include <gtest/gtest.h>

#include "parallel/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

TEST(TheLastStep, IsTheLastThatRandomMasksCount) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto graph = skip_graph();
  const Plan chosen = plan(graph, devices("cpu:0"), {.batch = 6});
  Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}), {.seed = 1});
  for (const int64_t steps : {kMostSteps + 1, int64_t{7} + (int64_t{1} << 32), int64_t{1} << 62})
    expect_error<UsageError>([&] { trainer.set_steps_done(steps); }, {"set_steps_done", "to 4294967295", join(steps)});
  trainer.set_steps_done(kMostSteps - 1);
  trainer.step(skip_batch(6, 1));
  EXPECT_EQ(trainer.steps_done(), kMostSteps);
  expect_error<UsageError>([&] { trainer.step(skip_batch(6, 1)); }, {"step: needs fewer than 4294967295 steps", "begin a new training"});
  trainer.evaluate(skip_batch(6, 1));
  const auto saved = open_checkpoint(output.save(trainer, "", {}, 1));
  EXPECT_EQ(saved.step, kMostSteps);
  Trainer restored(graph, chosen, AdamW({.lr = 1e-2}), {.seed = 2});
  restore(saved, restored);
  EXPECT_EQ(restored.weights_hash(), trainer.weights_hash());
}

}  // namespace
}  // namespace sluice::parallel
