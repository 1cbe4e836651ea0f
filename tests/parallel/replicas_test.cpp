// Promise 1 over replicas: for a number of fold blocks, the same bits for any number of replicas, with bytes as planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "parallel/group/thread_group.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/plan/plan_programs.h"
#include "parallel/program/program_bytes.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/replica_jobs.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::BatchMaker;
using sluice::testing::describe;
using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::options_of;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;
using sluice::testing::train;
using sluice::testing::trainer_of;
using Job = sluice::testing::ReplicaJob;
using Outcome = sluice::testing::ReplicaOutcome;

/// Replicas of 1 and 2 devices, as threads and ranks, against one device with the same blocks.
void expect_one_answer(const layers::Graph& graph, int64_t samples, const Job& base, const BatchMaker& batch) {
  const Outcome one = train(graph, base, samples, batch);
  for (const int replicas : {1, 2, 4})
    for (const int stages : {1, 2})
      for (const bool shards : {true, false}) {
        Job job = base;
        job.replicas = replicas;
        job.stages = stages;
        job.shards_optimizer = shards;
        if (replicas == 1 && !shards) continue;
        EXPECT_EQ(train(graph, job, samples, batch), one) << describe(job);
        job.ranks = job.devices() > 4 ? 4 : job.devices();
        if (job.ranks == 1) continue;
        if (stages == 2 && shards) job.replica_devices = ReplicaDevices::apart;
        EXPECT_EQ(train(graph, job, samples, batch), one) << describe(job);
      }
}

TEST(Replicas, GiveOneAnswerForATransformerWithTiedEmbeddings) {
  auto options = tiny_transformer_options();
  for (const int64_t vocab : {4100, 19}) {  // the embedding has three grains, which shards cut, or lies in one shard
    options.vocab = vocab;
    const layers::Graph graph = models::transformer_lm(options);
    for (const auto schedule : kNamedSchedules) {
      if (vocab == 19 && schedule != NamedSchedule::zb_v) continue;
      expect_one_answer(graph, 10, {.schedule = schedule}, [&](uint64_t seed) { return token_batch(options, 10, seed); });
    }
  }
}

TEST(Replicas, GiveOneAnswerInBf16WithMovingAverages) {
  auto options = tiny_transformer_options();
  options.vocab = 4100;
  const layers::Graph graph = models::transformer_lm(options);
  for (const auto precision : {Precision::f32, Precision::bf16})
    expect_one_answer(graph, 10, {.precision = precision, .ema = 0.9}, [&](uint64_t seed) { return token_batch(options, 10, seed); });
}

TEST(Replicas, GiveOneAnswerForRunningStatistics) {
  for (const int micro_batches : {4, 7})
    expect_one_answer(image_graph(), 10, {.micro_batches = micro_batches, .ema = 0.5}, [](uint64_t seed) { return image_batch(10, seed); });
}

TEST(Replicas, GiveOneAnswerForADagWithSkipsThatIsRecomputed) {
  for (const auto remat : {Remat::none, Remat::full})
    expect_one_answer(skip_graph(), 9, {.remat = remat}, [](uint64_t seed) { return skip_batch(9, seed); });
}

/// A replica may begin with several blocks that no micro-batch is in.
TEST(Replicas, GiveOneAnswerWhereMostBlocksAreEmpty) {
  const layers::Graph graph = skip_graph();
  const auto batch = [](uint64_t seed) { return skip_batch(33, seed); };
  for (const int blocks : {16, 32})
    for (const int micro_batches : {3, 5, 7}) {
      Job job{.fold_blocks = blocks, .micro_batches = micro_batches};
      const Outcome one = train(graph, job, 33, batch);
      for (job.replicas = 2; job.replicas <= std::min(4, micro_batches); job.replicas *= 2)
        EXPECT_EQ(train(graph, job, 33, batch), one) << blocks << " blocks, " << describe(job);
    }
}

/// Frozen parameters are in no replica's shard: each has them whole.
TEST(Replicas, GiveOneAnswerWithFrozenParameters) {
  auto options = tiny_transformer_options();
  options.vocab = 4100;
  for (const char* names : {"*embedding*", "block1.*"}) {
    layers::Graph graph = models::transformer_lm(options);
    graph.freeze(names);
    for (const auto precision : {Precision::f32, Precision::bf16})
      expect_one_answer(graph, 10, {.precision = precision, .ema = 0.9}, [&](uint64_t seed) { return token_batch(options, 10, seed); });
  }
}

TEST(Replicas, OneBlockGivesTheBitsOfTrainingsWithoutBlocks) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  const auto all = devices("cpu:0");
  Trainer plain(graph, plan(graph, all, {.batch = 8, .micro_batches = 5, .schedule = NamedSchedule::one_f_one_b}), AdamW({.lr = 1e-2}),
                {.seed = 3, .clip = 0.5});
  for (uint64_t step = 0; step < 3; ++step) plain.step(batch(step));
  plain.evaluate(batch(77));
  plain.step(batch(4));
  EXPECT_EQ(train(graph, {.fold_blocks = 1}, 8, batch).hash, plain.weights_hash());
  EXPECT_NE(train(graph, {.fold_blocks = 4}, 8, batch).hash, plain.weights_hash()) << "blocks are what the answer depends on";
  EXPECT_NE(train(graph, {.fold_blocks = 2}, 8, batch).hash, train(graph, {.fold_blocks = 4}, 8, batch).hash);
}

/// A model whose parameters are of any size: cut, whole, and far smaller than a grain.
layers::Graph uneven_graph() {
  layers::Graph net;
  const auto x = net.input("x", {6}), target = net.input("target", {}, DType::i32);
  auto h = net.add("wide", layers::Linear(6, 30000), x);
  h = net.add("narrow", layers::Linear(30000, 4), h);
  net.loss(net.add("loss", layers::CrossEntropy(), {net.add("logits", layers::Linear(4, 5), h), target}));
  return net;
}

int64_t elements_of(const layers::Graph& graph) {
  int64_t all = 0;
  for (const auto& parameter : graph.parameters()) all += parameter.spec.shape.elements();
  return all;
}

TEST(Replicas, HaveAnEqualPartOfTheStatesWithinAGrain) {
  const layers::Graph graph = uneven_graph();
  const int64_t all = elements_of(graph);
  for (const int replicas : {2, 3, 4, 7}) {
    const Partition whole{{static_cast<int>(graph.nodes().size())}};
    int64_t sum = 0;
    for (const Shard& shard : shards_of(graph, whole, 0, replicas)) {
      int64_t own = 0;
      for (const ShardPiece& piece : shard) {
        own += piece.elements.count;
        EXPECT_EQ(piece.elements.first % kShardGrain, 0);
      }
      EXPECT_LT(std::abs(own * replicas - all), kShardGrain * replicas) << replicas << " replicas";
      sum += own;
    }
    EXPECT_EQ(sum, all) << replicas << " replicas";
  }
}

TEST(Replicas, SendEqualShardsOfTiedParameters) {
  auto options = tiny_transformer_options();
  options.vocab = 41000;
  options.tied_embeddings = true;
  const layers::Graph graph = models::transformer_lm(options);
  const Partition whole{{static_cast<int>(graph.nodes().size())}};
  for (const int replicas : {2, 3, 7}) {
    std::vector<int64_t> sent, own;
    for (const Shard& shard : shards_of(graph, whole, 0, replicas)) {
      sent.push_back(0), own.push_back(0);
      for (const auto& [parameter, elements] : shard) {
        own.back() += elements.count;
        sent.back() += elements.count * static_cast<int64_t>(graph.parameters()[parameter].nodes.size());
      }
    }
    EXPECT_LT(std::ranges::max(own) - std::ranges::min(own), 2 * kShardGrain) << replicas << " replicas";
    EXPECT_LT(std::ranges::max(sent) - std::ranges::min(sent), 4 * kShardGrain) << replicas << " replicas";
  }
}

/// Each replica sends each other one its shard of the gradients in f32 and gets its weights: as many bytes as the two halves of a ring take,
/// but for what lies between packed pieces.
TEST(Replicas, SendAsManyBytesAsARing) {
  const layers::Graph graph = uneven_graph();
  const auto bytes_of = [&](int replicas, bool shards_optimizer) {
    const auto all = devices(join(replicas, "x cpu"));
    const Plan chosen = plan(graph, all, {.batch = 8, .micro_batches = 8, .replicas = replicas, .shards_optimizer = shards_optimizer});
    const Topology topology = topology_of(graph);
    const AdamW optimizer({});
    PlanPrograms programs(graph, topology, chosen, stage_options(chosen, optimizer));
    const Program program = programs.count(programs.step(declared_shape(graph, 8))).program;
    int64_t bytes = 0;
    for (const auto& actions : program.devices)
      for (const Action& action : actions)
        if (action.kind == ActionKind::send && !action.transfer.between_devices()) bytes += action.bytes;
    return bytes;
  };
  constexpr int64_t kBetweenPieces = 16 * 4;  // bytes at most
  const auto pieces = static_cast<int64_t>(graph.parameters().size());
  for (const int replicas : {2, 4})
    for (const bool shards_optimizer : {true, false}) {
      const int64_t ring = 2 * (replicas - 1) * elements_of(graph) * 4;  // of all replicas together
      EXPECT_GE(bytes_of(replicas, shards_optimizer), ring);
      EXPECT_LE(bytes_of(replicas, shards_optimizer), ring + 2 * (replicas - 1) * (pieces + replicas) * kBetweenPieces);
    }
}

TEST(Replicas, EvaluateFewerMicroBatchesThanThereAreReplicas) {
  const layers::Graph graph = skip_graph();
  const auto losses = [&](int replicas) {
    const auto all = devices(join(replicas, "x cpu"));
    Trainer trainer(graph, plan(graph, all, {.batch = 8, .micro_batches = 4, .replicas = replicas}), AdamW({}), {.seed = 3});
    const auto result = trainer.evaluate(skip_batch(2, 5), true);
    auto values = result.output.to_vector();
    values.push_back(result.loss_sum);
    return values;
  };
  EXPECT_EQ(losses(4), losses(1));
}

TEST(Replicas, GoOnFromCheckpointsOfAnyNumberOfThem) {
  auto options = tiny_transformer_options();
  options.vocab = 4100;
  const layers::Graph whole = models::transformer_lm(options);
  layers::Graph tuned = whole;
  tuned.freeze("block1.*");
  const auto batch = [&](uint64_t seed) { return token_batch(options, 10, seed); };
  std::vector<Job> jobs = {{.replicas = 1, .stages = 2},
                           {.replicas = 2, .stages = 1, .ranks = 2},
                           {.replicas = 2, .stages = 2, .ranks = 2, .shards_optimizer = false},
                           {.replicas = 4, .stages = 1, .ranks = 4},
                           {.replicas = 4, .stages = 1}};
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    for (Job& job : jobs) {
      job.precision = precision;
      job.ema = 0.9;
    }
    for (const auto& graph : {whole, tuned}) expect_checkpoints_go_on(graph, jobs, 10, batch);
  }
}

TEST(Replicas, ErrorsNameWhatDoesNotFitAndTheCure) {
  const layers::Graph graph = skip_graph();
  const auto planned = [&](const char* names, const PlanOptions& options) { plan(graph, devices(names), options); };
  expect_error<UsageError>([&] { planned("3x cpu", {.batch = 8, .micro_batches = 4, .replicas = 2}); },
                           {"PlanOptions::replicas", "equally many devices for each of the 2 replicas, got 3", "a multiple of 2"});
  expect_error<UsageError>([&] { planned("2x cpu", {.batch = 8, .micro_batches = 1, .replicas = 2}); },
                           {"PlanOptions::micro_batches", "at least one for each of the 2 replicas, got 1"});
  expect_error<UsageError>([&] { planned("2x cpu", {.batch = 8, .micro_batches = 4, .replicas = 2, .fold_blocks = 3}); },
                           {"fold blocks for each of the 2 replicas, got 3", "set 2 or 4"});
  Trainer trainer(graph, plan(graph, devices("2x cpu"), {.batch = 8, .micro_batches = 4, .replicas = 2}), AdamW({}));
  expect_error<UsageError>([&] { trainer.step(skip_batch(8, 1), 1); }, {"at least one micro-batch for each of the 2 replicas, got 1"});
  Plan other = trainer.plan();
  other.replication.fold_blocks = 4;
  expect_error<UsageError>([&] { trainer.move_to(other); }, {"2 fold blocks, got 4", "decide the bits"});
}

/// To another number of replicas in the middle of a training.
TEST(Replicas, MoveToOtherPlansWithTheSameBits) {
  const layers::Graph graph = image_graph();
  const auto batch = [](uint64_t seed) { return image_batch(10, seed); };
  Job job{.micro_batches = 4, .ema = 0.5};
  const Outcome wanted = train(graph, job, 10, batch);
  job.replicas = 2;
  run_ranks(1, [&](Group& group) {
    const auto trainer = trainer_of(group, graph, job, 10);
    trainer->step(batch(0));
    Job other = job;
    other.replicas = 4;
    trainer->move_to(plan(graph, devices("4x cpu"), options_of(other, 10)));
    trainer->step(batch(1));
    other.replicas = 1;
    other.stages = 2;
    trainer->move_to(plan(graph, devices("2x cpu"), options_of(other, 10)));
    trainer->step(batch(2));
    trainer->step(batch(4));
    EXPECT_EQ(trainer->weights_hash(), wanted.hash);
  });
}

}  // namespace
}  // namespace sluice::parallel
