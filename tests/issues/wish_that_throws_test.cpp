// A trainer whose TrainerOptions::wish threw took that for a step that had failed midway, and refused to go on.
#include <gtest/gtest.h>

#include <mutex>

#include "parallel/group/thread_group.h"
#include "parallel/trainer.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6;

/// Nothing that Sluice knows.
struct Enough {
  int asked;
};

/// Throws when it is asked for the second and the fourth time.
TrainerOptions with_wish(int& asked) {
  return {.seed = 7, .wish = [&asked] {
            if (++asked % 2 == 0) throw Enough{asked};
            return Wish{.signal = asked};
          }};
}

Plan plan_of(const layers::Graph& graph, const char* names) {
  return plan(graph, devices(names), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
}

template <class Work>
void expect_enough(int asked, const Work& work) {
  try {
    work();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Enough& enough) {
    EXPECT_EQ(enough.asked, asked);
  }
}

TEST(AWishThatThrows, LeavesAStepDoneAndATrainerThatGoesOn) {
  const auto graph = skip_graph();
  for (const char* names : {"cpu:0", "cpu:0,cpu:1"}) {
    SCOPED_TRACE(names);
    int asked = 0;
    AdamW optimizer({.lr = 1e-2});
    optimizer.ema = 0.9;
    Trainer trainer(graph, plan_of(graph, names), optimizer, with_wish(asked));
    Trainer undisturbed(graph, plan_of(graph, names), optimizer, TrainerOptions{.seed = 7});
    EXPECT_EQ(trainer.step(skip_batch(kSamples, 1)).wish.signal, 1);
    expect_enough(2, [&] { trainer.step(skip_batch(kSamples, 2)); });
    EXPECT_EQ(trainer.steps_done(), 2);
    EXPECT_NO_THROW(trainer.require_whole());
    EXPECT_EQ(trainer.evaluate(skip_batch(kSamples, 3)).wish.signal, 3);
    expect_enough(4, [&] { trainer.evaluate(skip_batch(kSamples, 3)); });
    EXPECT_EQ(trainer.steps_done(), 2);
    for (const uint64_t seed : {1, 2}) undisturbed.step(skip_batch(kSamples, seed));
    EXPECT_EQ(trainer.step(skip_batch(kSamples, 4)).loss, undisturbed.step(skip_batch(kSamples, 4)).loss);
    EXPECT_EQ(trainer.weights_hash(), undisturbed.weights_hash());
  }
}

TEST(AWishThatThrows, LeavesTheStepOfAllRanksDone) {
  const auto graph = skip_graph();
  Trainer alone(graph, plan_of(graph, "cpu:0,cpu:1"), AdamW({.lr = 1e-2}), TrainerOptions{.seed = 7});
  for (const uint64_t seed : {1, 2, 3}) alone.step(skip_batch(kSamples, seed));
  std::mutex mutex;
  run_ranks(2, [&](Group& group) {
    int asked = 0;
    TrainerOptions options{.seed = 7, .timeout_seconds = 60};
    if (group.rank() == 1) options.wish = with_wish(asked).wish;
    options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
    Trainer trainer(graph, plan_of(graph, "2x cpu"), AdamW({.lr = 1e-2}), options);
    const auto step = [&](uint64_t seed) { return trainer.step(skip_batch(kSamples, seed)); };
    const int wished = step(1).wish.signal;
    group.rank() == 1 ? expect_enough(2, [&] { step(2); }) : static_cast<void>(step(2));
    step(3);
    const std::string hash = trainer.weights_hash();
    std::lock_guard lock(mutex);
    EXPECT_EQ(wished, 1);
    EXPECT_EQ(trainer.steps_done(), 3);
    EXPECT_EQ(hash, alone.weights_hash());
  });
}

}  // namespace
}  // namespace sluice::parallel
