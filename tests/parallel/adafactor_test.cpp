// An optimizer whose states have other shapes than the parameters, and which steps whole parameters alone: one answer, exact bytes, and
// checkpoints over stages, replicas and ranks all the same.
#include <gtest/gtest.h>

#include "parallel/checkpoint.h"
#include "parallel/checkpoint/verify.h"
#include "tests/expect_error.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/replica_jobs.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::describe;
using sluice::testing::expect_checkpoints_go_on;
using sluice::testing::expect_one_answer;
using sluice::testing::expect_states_as_searches_count_them;
using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::tiny_language_model;
using sluice::testing::TinyModel;
using sluice::testing::train;
using Job = sluice::testing::ReplicaJob;

constexpr int64_t kSamples = 8;
const Adafactor kAdafactor({.lr = 1e-2, .weight_decay = 0.1});

/// Skips over stages; convolutions and running statistics; tied weights.
std::vector<TinyModel> models() {
  return {{skip_graph(), [](uint64_t seed) { return skip_batch(kSamples, seed); }},
          {image_graph(), [](uint64_t seed) { return image_batch(kSamples, seed); }},
          tiny_language_model(kSamples)};
}

std::vector<Job> jobs() {
  std::vector<Job> all;
  for (const auto& [replicas, stages, ranks] : {std::tuple(1, 1, 1), {1, 2, 2}, {2, 1, 1}, {2, 2, 1}, {2, 2, 4}, {4, 1, 2}})
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      Job job{.replicas = replicas, .stages = stages, .ranks = ranks, .precision = precision, .ema = 0.9};
      job.optimizer = &kAdafactor;
      all.push_back(job);
    }
  return all;
}

TEST(AdafactorTraining, LeavesOneAnswerAndExactBytesForEveryPipeline) {
  for (const TinyModel& model : models()) expect_one_answer(model.graph, model.batch, &kAdafactor);
}

TEST(AdafactorTraining, LeavesOneAnswerOfReplicasThatAllStepTheWhole) {
  const TinyModel model = tiny_language_model(kSamples);
  std::map<Precision, sluice::testing::ReplicaOutcome> first;
  for (const Job& job : jobs()) {
    const auto outcome = train(model.graph, job, kSamples, model.batch);
    EXPECT_EQ(first.try_emplace(job.precision, outcome).first->second, outcome) << describe(job);
  }
}

TEST(AdafactorTraining, GoesOnFromCheckpointsOverAnyReplicasStagesAndRanks) {
  const TinyModel model = tiny_language_model(kSamples);
  std::vector<Job> of_f32;
  for (const Job& job : jobs())
    if (job.precision == Precision::f32) of_f32.push_back(job);
  expect_checkpoints_go_on(model.graph, of_f32, kSamples, model.batch);
}

TEST(AdafactorTraining, IsCountedBySearchesAsItIsByRuns) {
  Adafactor averaged = kAdafactor;
  averaged.ema = 0.9;
  for (const Precision precision : {Precision::f32, Precision::bf16})
    for (const Adafactor* optimizer : {&kAdafactor, static_cast<const Adafactor*>(&averaged)})
      expect_states_as_searches_count_them(models()[0].graph, kSamples, precision, *optimizer);
}

TEST(AdafactorTraining, TakesNextToNoMemoryForItsStates) {
  models::TransformerOptions options = sluice::testing::tiny_transformer_options();
  options.dim = 128;
  const layers::Graph graph = models::transformer_lm(options);
  const auto bytes = [&](const Optimizer& optimizer) {
    return predict(graph, plan(graph, devices("cpu:0"), {.batch = kSamples}), optimizer, kSamples, {}).devices[0].optimizer_bytes;
  };
  EXPECT_LT(20 * bytes(kAdafactor), bytes(AdamW({.lr = 1e-2})));
}

TEST(AdafactorTraining, ProvesItsCheckpointsAndKnowsThoseOfOthers) {
  const TinyModel model = tiny_language_model(kSamples);
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto trainer_with = [&](const Optimizer& optimizer) {
    return std::make_unique<Trainer>(model.graph, plan(model.graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2}),
                                     optimizer);
  };
  const auto trainer = trainer_with(kAdafactor);
  trainer->step(model.batch(1));
  const Checkpoint checkpoint = open_checkpoint(output.save(*trainer, "", {}, 1));
  EXPECT_EQ(verify(checkpoint, model.graph, kAdafactor).not_finite, 0);
  const AdamW other({.lr = 1e-2});
  expect_error<DataError>([&] { verify(checkpoint, model.graph, other); }, {"/m'", "[optimizer]"});
  expect_error<DataError>([&] { restore(checkpoint, *trainer_with(other)); }, {"/m'", "[optimizer]"});
}

TEST(AdafactorTraining, IsNotSharedOut) {
  const TinyModel model = tiny_language_model(kSamples);
  Plan shared = plan(model.graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .replicas = 2});
  ASSERT_TRUE(shared.replication.shards());
  for (const auto& use : std::vector<std::function<void()>>{[&] { Trainer(model.graph, shared, kAdafactor); },
                                                            [&] { predict(model.graph, shared, kAdafactor, kSamples, {}); }})
    expect_error<UsageError>(use, {"Plan::replication", "adafactor steps whole parameters", "shards_optimizer = false"});
  for (const auto& layout :
       compare_layouts(model.graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .optimizer = &kAdafactor}, {})) {
    EXPECT_EQ(layout.refusal.empty(), layout.name != "sharded") << layout.name << ": " << layout.refusal;
    if (layout.name == "sharded") {
      EXPECT_NE(layout.refusal.find("adafactor steps whole parameters"), std::string::npos) << layout.refusal;
    }
  }
}

}  // namespace
}  // namespace sluice::parallel
