#include "parallel/run/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "parallel/program/verify.h"
#include "parallel/run/batch_shape.h"
#include "parallel/run/hang_report.h"
#include "parallel/schedule/named.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/program_run.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::ProgramRun;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr double kLongWait = 60;

Program two_stages(const layers::Graph& graph, const char* schedule) {
  const Topology topology = topology_of(graph);
  return lower(topology, partition_uniform(topology.node_count(), 2), make_schedule(schedule_named(schedule), 2, 2),
               std::vector<bool>(topology.node_count(), false));
}

/// The place of the first such action of a micro-batch's transfers.
auto find_transfer(std::vector<Action>& actions, ActionKind kind, int micro_batch) {
  return std::ranges::find_if(actions, [&](const Action& a) { return a.kind == kind && a.micro_batch == micro_batch; });
}

void move_before(std::vector<Action>& actions, ActionKind kind, ActionKind before, int micro_batch) {
  const Action moved = *find_transfer(actions, kind, micro_batch);
  actions.erase(find_transfer(actions, kind, micro_batch));
  actions.insert(find_transfer(actions, before, micro_batch), moved);
}

/// Device 0 waits for the first gradient before it sends the activation that this gradient depends on.
Program with_a_cycle(const layers::Graph& graph) {
  Program program = two_stages(graph, "gpipe");
  move_before(program.devices[0], ActionKind::recv_post, ActionKind::send, 0);
  move_before(program.devices[0], ActionKind::recv, ActionKind::send, 0);
  return program;
}

/// A step that hangs says so. On a busy machine a short timeout may be over before all devices have come to where they hang, and whoever waits
/// for them may see that it is over before they do.
void expect_hang(ProgramRun& run, const std::vector<std::string>& words) {
  std::string message;
  const auto lacks = [&](const std::string& word) { return message.find(word) == std::string::npos; };
  for (const double timeout : {0.2, 2.0, 20.0}) {
    run.executor().set_timeout_seconds(timeout);
    try {
      run.step(skip_batch(4, 1));
      FAIL() << "no error";
    } catch (const CommError& error) {
      message = error.what();
    }
    EXPECT_FALSE(lacks(join(" within ", timeout, " s (pipeline.timeout)"))) << message;
    if (std::ranges::none_of(words, lacks)) return;
  }
  for (const std::string& word : words) EXPECT_FALSE(lacks(word)) << message << "\n lacks: " << word;
}

TEST(Executor, SaysWhoWaitsForWhatWhenAMessageNeverComes) {
  const auto graph = skip_graph();
  Program program = two_stages(graph, "gpipe");
  std::erase_if(program.devices[0], [](const Action& action) {
    return (action.kind == ActionKind::send || action.kind == ActionKind::send_wait) && action.micro_batch == 1;
  });
  ProgramRun run(graph, program, "cpu", kLongWait);
  expect_hang(run, {"device 1 (cpu:1) has finished F(stage 1, micro-batch 0) and waits for activation",
                    "of micro-batch 1 from stage 0 on device 0 (cpu:0) for stage 1, which nobody sends",
                    "device 0 (cpu:0) has finished RecvPost gradient", "and waits for gradient"});
}

TEST(Executor, ReportsACycleOfWaitsWithinTheTimeout) {
  const auto graph = skip_graph();
  const Program program = with_a_cycle(graph);
  EXPECT_TRUE(verify(topology_of(graph), program)) << "only a test may run this program";
  ProgramRun run(graph, program, "cpu", kLongWait);
  const auto start = std::chrono::steady_clock::now();
  expect_hang(run, {"the waits form a cycle: device 0 (cpu:0) waits for gradient of '",
                    "of micro-batch 0 from stage 1 on device 1 (cpu:1), which waits for activation '",
                    "of micro-batch 0 from stage 0 on device 0 (cpu:0)"});
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited.count(), 0.2);
  EXPECT_LT(waited.count(), kLongWait) << "0.2 s, and what a busy machine adds";
}

TEST(Executor, ReportsACycleOnDevicesThatOnlyCount) {
  const auto graph = skip_graph();
  ProgramRun run(graph, with_a_cycle(graph), "meta", 600);
  expect_error<CommError>([&] { run.step(meta_batch(graph, 4)); },
                          {"the devices wait for ever", "the waits form a cycle: device 0 (meta:0) waits for gradient of '"});
}

TEST(Executor, SaysWhoWaitsForTheReceiverOfWhatItSends) {
  const auto graph = skip_graph();
  Program program = two_stages(graph, "gpipe");
  auto& sending = program.devices[0];
  const Action wait = *find_transfer(sending, ActionKind::send_wait, 0);
  sending.erase(find_transfer(sending, ActionKind::send_wait, 0));
  sending.insert(find_transfer(sending, ActionKind::send, 0) + 1, wait);
  std::erase_if(program.devices[1], [](const Action& action) {
    return action.transfer.payload == Payload::activation && action.kind == ActionKind::recv_post;
  });
  ProgramRun run(graph, program, "cpu", kLongWait);
  expect_hang(run, {"device 0 (cpu:0) has finished Send activation", "and waits for the receive of activation",
                    "of micro-batch 0 by stage 1 on device 1 (cpu:1) from stage 0, which nobody posts"});
}

TEST(Executor, NamesAWorkerThatHasStopped) {
  const auto graph = skip_graph();
  ProgramRun run(graph, two_stages(graph, "1f1b"), "cpu", kLongWait);
  run.executor().set_before_action([](int device, const Action& action, const std::stop_token& failed) {
    if (device == 1 && action.kind == ActionKind::backward)
      while (!failed.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  expect_hang(run, {"device 0 (cpu:0) has finished", "and waits for gradient of '", "from stage 1 on device 1 (cpu:1) for stage 0",
                    "and is in B(stage 1, micro-batch 0)", "device 1 (cpu:1) holds up the others: it stands in B(stage 1, micro-batch 0)"});
  run.executor().set_before_action({});
  run.executor().set_timeout_seconds(kLongWait);
  EXPECT_GT(run.step(skip_batch(4, 1)).loss, 0) << "the executor goes on after a failure";
}

TEST(HangReport, FollowsCyclesOfSeveralDevicesAndOfOne) {
  Topology topology;
  for (const char* name : {"a", "b", "c"}) topology.nodes.push_back({name, {}});
  const auto action = [](ActionKind kind, int value, int from, int to) {
    return Action{kind, kind == ActionKind::send ? from : to, 0, {Payload::activation, value, -1, from, to}, {}};
  };
  const auto recv = [&](int value, int from, int to) { return action(ActionKind::recv, value, from, to); };
  const auto send = [&](int value, int from, int to) { return action(ActionKind::send, value, from, to); };
  Program program;
  program.device_of_stage = {0, 1, 2};
  program.devices = {{recv(2, 2, 0), send(0, 0, 1)}, {recv(0, 0, 1), send(1, 1, 2)}, {recv(1, 1, 2), send(2, 2, 0)}};
  const std::vector<std::string> names{"x:0", "x:1", "x:2"};
  const std::string all = hang_report(program, topology, names, {0, 0, 0});
  EXPECT_NE(
      all.find("the waits form a cycle: device 0 (x:0) waits for activation 'c' of micro-batch 0 from stage 2 on device 2 (x:2), which "
               "waits for activation 'b' of micro-batch 0 from stage 1 on device 1 (x:1), which waits for activation 'a' of "
               "micro-batch 0 from stage 0 on device 0 (x:0)"),
      std::string::npos)
      << all;
  EXPECT_NE(all.find("device 1 (x:1) has finished nothing and waits for"), std::string::npos) << all;

  program.devices[0] = {recv(0, 0, 0), send(0, 0, 0)};
  const std::string one = hang_report(program, topology, names, {0, 0, 0});
  EXPECT_NE(one.find("from stage 0 on device 0 (x:0), which it sends later in its own list"), std::string::npos) << one;
  EXPECT_NE(one.find("device 2 (x:2) has finished nothing and waits for"), std::string::npos) << one;

  const std::string sent = hang_report(program, topology, names, {2, 1, 0});
  EXPECT_NE(sent.find("device 0 (x:0) has finished\n"), std::string::npos) << sent;
  EXPECT_NE(sent.find("device 1 (x:1) holds up the others: it stands in Send activation 'b'"), std::string::npos) << sent;
}

TEST(HangReport, FollowsSendsThatWaitForTheirReceivers) {
  Topology topology;
  for (const char* name : {"a", "b"}) topology.nodes.push_back({name, {}});
  const auto action = [](ActionKind kind, int value, int from, int to, int at) {
    return Action{kind, at, 0, {Payload::activation, value, -1, from, to}, {}};
  };
  Program program;
  program.device_of_stage = {0, 1};
  program.devices = {
      {action(ActionKind::send, 0, 0, 1, 0), action(ActionKind::send_wait, 0, 0, 1, 0), action(ActionKind::recv_post, 1, 1, 0, 0)},
      {action(ActionKind::send, 1, 1, 0, 1), action(ActionKind::send_wait, 1, 1, 0, 1), action(ActionKind::recv_post, 0, 0, 1, 1)}};
  const std::string all = hang_report(program, topology, {"x:0", "x:1"}, {1, 1});
  EXPECT_NE(
      all.find("the waits form a cycle: device 0 (x:0) waits for the receive of activation 'a' of micro-batch 0 by stage 1 on device 1 "
               "(x:1), which waits for the receive of activation 'b' of micro-batch 0 by stage 0 on device 0 (x:0)"),
      std::string::npos)
      << all;
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
  EXPECT_EQ(phases["M"], 3) << "names of the process and its devices";
  EXPECT_GT(phases["s"], 0);
  EXPECT_EQ(phases["C"], phases["X"]) << "live bytes after every action shown";
  EXPECT_NE(chrome_trace(trainer.trace(), topology_of(graph), trainer.trace()).find("predicted"), std::string::npos);
  for (const auto& event : trainer.trace().events) EXPECT_GT(event.live_bytes, 0);
  EXPECT_EQ(phases["s"], phases["f"]);
  EXPECT_GE(trainer.trace().bubble(), 0);
  EXPECT_LT(trainer.trace().bubble(), 1);
}

TEST(Worker, RunsItsJobsInOrder) {
  Worker worker;
  int count = 0;
  for (int i = 0; i < 100; ++i) {
    worker.submit([&] { ++count; });
    EXPECT_TRUE(worker.wait_until(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  }
  EXPECT_EQ(count, 100);
}

}  // namespace
}  // namespace sluice::parallel
