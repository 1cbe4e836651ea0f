#include "parallel/executor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

TEST(Executor, SaysWhoWaitsForWhatWhenAMessageNeverComes) {
  const auto graph = skip_graph();
  const Topology topology = topology_of(graph);
  const auto two = devices("cpu:0,cpu:1");
  const Partition partition = partition_uniform(topology.node_count(), 2);
  const std::vector<bool> keep(topology.node_count(), false);
  Program program = lower(topology, partition, make_schedule("gpipe", 2, 2), keep);
  std::erase_if(program.devices[0], [](const Action& action) { return action.kind == ActionKind::send && action.micro_batch == 1; });

  std::vector<std::unique_ptr<Stage>> stages;
  for (int s = 0; s < 2; ++s)
    stages.push_back(
        std::make_unique<Stage>(graph, topology, partition, s, two[s], StageOptions{.rematerialize = keep, .optimizer_states = 2}));
  Executor executor(two, std::move(stages), topology, 0.2);
  const Batch batch = skip_batch(4, 1);
  const RunContext context{&batch, micro_batch_bounds(4, 2), true, 1, 0};
  const AdamW optimizer({.lr = 1e-2});
  expect_error<CommError>(
      [&] {
        executor.run(program, context, {&optimizer, {1e-2, 1}});
      },
      {"no message within 0.2 s", "cpu:1 is in Recv", "micro-batch 1", "cpu:0 is in"});
}

TEST(MicroBatches, DifferByAtMostOneSample) {
  EXPECT_EQ(micro_batch_bounds(8, 3), (std::vector<int64_t>{0, 3, 6, 8}));
  EXPECT_EQ(micro_batch_bounds(5, 5), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  expect_error<UsageError>([] { micro_batch_bounds(3, 4); }, {"from 1 to the 3 samples"});
  expect_error<UsageError>([] { micro_batch_bounds(3, 0); }, {"got 0"});
}

TEST(Trace, HasARowADeviceAndAnArrowATransfer) {
  const auto graph = skip_graph();
  Trainer trainer(graph, plan(graph, devices("cpu:0,cpu:1"), {.batch = 6, .micro_batches = 3}), AdamW({.lr = 1e-2}));
  trainer.step(skip_batch(6, 1));
  const auto parsed = nlohmann::json::parse(chrome_trace(trainer.trace(), topology_of(graph)));
  std::map<std::string, int> phases;
  for (const auto& event : parsed["traceEvents"]) ++phases[event["ph"]];
  EXPECT_EQ(phases["M"], 2);
  EXPECT_GT(phases["s"], 0);
  EXPECT_EQ(phases["s"], phases["f"]);
  EXPECT_GE(trainer.trace().bubble(), 0);
  EXPECT_LT(trainer.trace().bubble(), 1);
}

TEST(Worker, RunsItsJobsInOrder) {
  Worker worker;
  int count = 0;
  for (int i = 0; i < 100; ++i) {
    worker.submit([&] { ++count; });
    worker.wait();
  }
  EXPECT_EQ(count, 100);
}

}  // namespace
}  // namespace sluice::parallel
