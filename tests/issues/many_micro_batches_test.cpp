// An open window passes a whole list of actions, which was counted anew for each transfer: planning took four times as long for twice the
// micro-batches, half a minute for 32,000 of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

constexpr int kMicroBatches = 50'000;

/// A chain of `nodes` nodes behind one input.
Topology chain_of(int nodes) {
  Topology topology{.inputs = {"x"}, .nodes = {}, .differentiable = {false}, .tied = {}};
  for (int node = 0; node < nodes; ++node) {
    topology.nodes.push_back({join("n", node), {node}});
    topology.differentiable.push_back(true);
  }
  return topology;
}

/// Of three nodes on two devices, in seconds of the processor.
double seconds_to_lower(NamedSchedule schedule, const TransferWindow& window) {
  const Schedule order = make_schedule(schedule, 2, kMicroBatches);
  const std::clock_t began = std::clock();
  const Program program = lower(chain_of(3), {{1, 2}}, order, std::vector<bool>(3), window);
  EXPECT_GT(program.devices[0].size(), size_t{6} * kMicroBatches);
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

TEST(ManyMicroBatches, AreLoweredInTimeWhateverTheWindow) {
  for (const NamedSchedule schedule : {NamedSchedule::one_f_one_b, NamedSchedule::gpipe})
    for (const TransferWindow& window : {TransferWindow{}, TransferWindow{64, 64}, TransferWindow{20'000, 20'000}, kOpenWindow})
      EXPECT_LT(seconds_to_lower(schedule, window), 15)
          << name_of(schedule) << ", " << window.ahead << " actions ahead: some tenths of a second";
}

/// The first action behind, and before, so many computing ones.
TEST(ManyMicroBatches, ArePostedAndWaitedForSoManyComputingActionsAway) {
  const Topology topology = chain_of(2);
  const Schedule order = make_schedule(NamedSchedule::gpipe, 2, 4);
  for (const int behind : {0, 1, 2, 5, 7, 8, 9, 1000}) {
    SCOPED_TRACE(behind);
    const Program program = lower(topology, {{1, 1}}, order, std::vector<bool>(2), {1, behind});
    int computed = -1;  // since the Send of micro-batch 1; the list has 8, of which 2 stand before it, and 3 at the end of the step
    for (const Action& action : program.devices[0]) {
      if (action.transfer.payload == Payload::activation && action.micro_batch == 1) {
        if (action.kind == ActionKind::send) computed = 0;
        if (action.kind == ActionKind::send_wait) break;
      }
      if (computed >= 0 && !action.is_transfer()) ++computed;
    }
    EXPECT_EQ(computed, std::min(behind, 9));
  }
}

constexpr int kTooMany = 1 << 24;

layers::Graph two_nodes() {
  layers::Graph graph;
  const auto x = graph.input("x", {2}), label = graph.input("label", {}, DType::i32);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {graph.add("logits", layers::Linear(2, 2), x), label}));
  return graph;
}

/// More of them once filled the memory.
TEST(ManyMicroBatches, AreRefusedWhereTheirActionsWouldFillTheMemory) {
  const auto graph = two_nodes();
  const auto refuses = [](const auto& work, const std::string& field, int most, int stages) {
    expect_error<UsageError>(
        work, {field + ": needs at most " + std::to_string(most) + " micro-batches over " + std::to_string(stages) + " stage",
               "got 16777216", "make fewer and larger micro-batches"});
  };
  for (const auto& [names, stages] : {std::pair("meta:0", 1), std::pair("2x meta", 2)}) {
    const int most = (1 << 20) / stages;
    const auto planned = [&, names = names](const PlanOptions& options) { return plan(graph, devices(names), options); };
    refuses([&] { planned({.batch = kTooMany, .micro_batches = kTooMany}); }, "PlanOptions::micro_batches", most, stages);
    Plan by_hand = planned({.batch = 2, .micro_batches = 2});
    by_hand.micro_batches = kTooMany;
    refuses([&] { predict(graph, by_hand, AdamW({}), kTooMany, {}); }, "Plan::micro_batches", most, stages);
    refuses([&] { make_schedule(NamedSchedule::gpipe, by_hand.partition.stage_count(), kTooMany); }, "schedule", most, stages);
    refuses([&] { forward_schedule(stage_placement(NamedSchedule::gpipe, by_hand.partition.stage_count()), kTooMany); }, "schedule", most,
            stages);
  }
  refuses([&] { plan(graph, devices("2x meta"), {.batch = kTooMany, .micro_batches = kTooMany, .replicas = 2}); },
          "PlanOptions::micro_batches", 1 << 20, 1);
}

TEST(ManyMicroBatches, AreRefusedByAStepBeforeItTakesMemory) {
  const auto graph = two_nodes();
  Trainer trainer(graph, plan(graph, devices("cpu:0"), {.batch = 2, .micro_batches = 2}), SGD({.lr = 0.1}));
  const Batch batch{kTooMany, [](const std::string& input, int64_t, int64_t count) {
                      return input == "x" ? zeros({count, 2}) : zeros({count}, DType::i32);
                    }};
  expect_error<UsageError>([&] { trainer.step(batch, kTooMany); },
                           {"step: needs at most 1048576 micro-batches over 1 stage", "got 16777216"});
}

TEST(ManyMicroBatches, ThatAreFewEnoughArePlanned) {
  const Plan chosen = plan(two_nodes(), devices("2x meta"), {.batch = kTooMany, .micro_batches = kOpen});
  EXPECT_LE(chosen.micro_batches, 4096);
  EXPECT_EQ(make_schedule(NamedSchedule::gpipe, 1, 1 << 20).devices[0].size(), size_t{2} << 20);
}

}  // namespace
}  // namespace sluice::parallel
