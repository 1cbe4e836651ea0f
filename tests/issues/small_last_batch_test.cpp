// The last mini-batch of an epoch that has fewer samples than the plan has micro-batches ended a training.
#include <gtest/gtest.h>

#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;

Trainer trainer_of(const char* list, int micro_batches, const ScheduleChoice& schedule) {
  const auto graph = image_graph();
  return Trainer(graph, plan(graph, devices(list), {.batch = 8, .micro_batches = micro_batches, .schedule = schedule}), SGD({.lr = 0.1}),
                 {.seed = 3});
}

TEST(SmallLastBatch, IsTrainedInAsManyMicroBatchesAsItHasSamples) {
  for (const NamedSchedule schedule : {NamedSchedule::one_f_one_b, NamedSchedule::gpipe, NamedSchedule::zb_h1}) {
    Trainer whole = trainer_of("cpu:0,cpu:1", 4, {schedule}), other = trainer_of("cpu:0", 4, {schedule});
    for (const int64_t samples : {8, 3, 1, 8}) {
      whole.step(image_batch(samples, 1));
      other.step(image_batch(samples, 1), static_cast<int>(std::min<int64_t>(4, samples)));
    }
    EXPECT_EQ(whole.weights_hash(), other.weights_hash()) << name_of(schedule);
  }
}

/// One sample for two replicas, of which one has nothing to do.
TEST(SmallLastBatch, IsTrainedByReplicasOrRefusedWithTheCure) {
  const auto graph = image_graph();
  Trainer trainer(graph, plan(graph, devices("cpu:0,cpu:1"), {.batch = 8, .micro_batches = 4, .replicas = 2}), SGD({.lr = 0.1}),
                  {.seed = 3});
  trainer.step(image_batch(2, 1));
  expect_error<UsageError>([&] { trainer.step(image_batch(1, 1)); }, {"micro-batch", "replicas"});
  trainer.step(image_batch(8, 1));
  EXPECT_EQ(trainer.steps_done(), 2);
}

TEST(SmallLastBatch, IsRefusedWithMoreMicroBatchesThatAreAskedFor) {
  Trainer trainer = trainer_of("cpu:0", 4, {NamedSchedule::one_f_one_b});
  expect_error<UsageError>([&] { trainer.step(image_batch(3, 1), 4); }, {"from 1 to the 3 samples"});
}

}  // namespace
}  // namespace sluice::parallel
