#include "parallel/program/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <tuple>

#include "core/error.h"
#include "parallel/program/verify.h"
#include "parallel/schedule/named.h"
#include "tests/schedule/example_plans.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

constexpr double kRounding = 1e-9;

Program chain_program(std::string_view schedule, int stages, int micro_batches, bool rematerialize = false,
                      const TransferWindow& window = {}) {
  return lower(chain_topology(stages), partition_uniform(stages, stages), example_schedule(schedule, stages, micro_batches),
               std::vector<bool>(stages, rematerialize), window);
}

SimulationCosts equal_costs(int stages, double forward, double backward, double recompute = 0) {
  SimulationCosts costs;
  costs.forward.assign(stages, forward);
  costs.backward.assign(stages, backward);
  costs.recompute.assign(stages, recompute);
  return costs;
}

const SimulatedAction& find(const Timeline& timeline, const Program& program, ActionKind kind, int device, int micro_batch) {
  for (const auto& action : timeline.actions) {
    const Action& what = program.devices[action.device][action.index];
    if (action.device == device && what.kind == kind && what.micro_batch == micro_batch) return action;
  }
  throw UsageError("the timeline has no such action");
}

/// Two stages over a link, M micro-batches forward only.
SimulationCosts link_costs(double value_bytes, double latency_seconds, double bytes_per_second) {
  SimulationCosts costs = equal_costs(2, 1, 0);
  costs.value_bytes.assign(3, value_bytes);
  costs.links.all = {latency_seconds, bytes_per_second};
  return costs;
}

RC_GTEST_PROP(Simulate, EqualStagesTakeMicroBatchesPlusStagesMinusOneRounds, ()) {
  const auto name = *rc::gen::element<std::string>("gpipe", "1f1b");
  const int stages = pick(1, 7), micro_batches = pick(1, 13);
  const Timeline timeline = simulate(chain_program(name, stages, micro_batches), equal_costs(stages, 1.0, 2.5));
  const double rounds = micro_batches + stages - 1;
  RC_ASSERT(std::abs(timeline.seconds - rounds * 3.5) < kRounding);
  RC_ASSERT(std::abs(timeline.bubble - (stages - 1) / rounds) < kRounding);
  for (double busy : timeline.busy) RC_ASSERT(std::abs(busy - micro_batches * 3.5) < kRounding);
}

RC_GTEST_PROP(Simulate, RecomputationInGPipeHidesBehindTheWaitForTheGradient, ()) {
  const int stages = pick(1, 7), micro_batches = pick(1, 13);
  const Timeline timeline = simulate(chain_program("gpipe", stages, micro_batches, true), equal_costs(stages, 1, 2, 1));
  const double fill_and_drain = (stages - 1) * (1 + 2);  // as without recomputation: the fact (p-1)(F+B) of early R
  RC_ASSERT(std::abs(timeline.seconds - (fill_and_drain + micro_batches * (1 + 1 + 2))) < kRounding);
}

TEST(Simulate, TheSlowestStageSetsThePace) {
  SimulationCosts costs = equal_costs(2, 1, 1);
  costs.forward[1] = 3;
  const Timeline timeline = simulate(chain_program("forward-only", 2, 4), costs);
  EXPECT_DOUBLE_EQ(timeline.seconds, 1 + 4 * 3);
  EXPECT_DOUBLE_EQ(timeline.bubble, 1 - (4 + 12) / 2.0 / 13);
}

TEST(Simulate, TransfersOverlapComputation) {
  const Timeline timeline = simulate(chain_program("forward-only", 2, 4), link_costs(5, 0, 10));
  EXPECT_DOUBLE_EQ(timeline.seconds, 1 + 0.5 + 4);
}

TEST(Simulate, OneLinkCarriesOneTransferAtATime) {
  const Timeline timeline = simulate(chain_program("forward-only", 2, 3), link_costs(20, 0, 10));  // 2 s a transfer, 1 s a forward
  EXPECT_DOUBLE_EQ(timeline.seconds, 1 + 3 * 2 + 1);
}

TEST(Simulate, LatencyDelaysEachTransferButDoesNotFillTheLink) {
  const Timeline timeline = simulate(chain_program("forward-only", 2, 3, false, kOpenWindow), link_costs(10, 7, 10));
  EXPECT_DOUBLE_EQ(timeline.seconds, 1 + 1 + 7 + 3);
}

TEST(Simulate, AReceiveThatIsPostedLateHoldsItsTransferUp) {
  const Timeline timeline = simulate(chain_program("forward-only", 2, 3, false, {0, 0}), link_costs(10, 7, 10));
  EXPECT_DOUBLE_EQ(timeline.seconds, 1 + 3 * (1 + 7 + 1)) << "each is posted when the forward before it has ended";
}

TEST(Simulate, TransfersWithinADeviceAreFree) {
  const Schedule schedule = sequential_schedule({0, 0}, 1, 2, false);
  const Program program = lower(chain_topology(2), {{1, 1}}, schedule, {false, false});
  SimulationCosts costs = link_costs(10, 7, 10);
  costs.backward = {2, 2};
  EXPECT_DOUBLE_EQ(simulate(program, costs).seconds, 2 * 2 * (1 + 2));
}

TEST(Simulate, APairOfDevicesMayHaveALinkOfItsOwn) {
  SimulationCosts costs = equal_costs(3, 1, 0);
  costs.value_bytes.assign(4, 10);
  costs.links.all = {0, 10};
  costs.links.of_pair[{1, 2}] = {7, 5};
  EXPECT_DOUBLE_EQ(simulate(chain_program("forward-only", 3, 1), costs).seconds, 1 + 1 + 1 + (2 + 7) + 1);
  costs.links.of_pair = {{{2, 1}, {7, 5}}};  // the way back, which forwards do not take
  EXPECT_DOUBLE_EQ(simulate(chain_program("forward-only", 3, 1), costs).seconds, 1 + 1 + 1 + 1 + 1);
}

/// 128 MiB of activations, 10 ms a forward.
double seconds_over(const Link& link) {
  SimulationCosts costs = equal_costs(2, 0.01, 0.02);
  costs.value_bytes.assign(3, 128 << 20);
  costs.links.all = link;
  return simulate(chain_program("1f1b", 2, 8), costs).seconds;
}

TEST(Simulate, GoesFromNvlinkToAWideAreaLine) {
  const double computed = 9 * 0.03;
  EXPECT_LT(seconds_over({2e-6, 450e9}), 1.01 * computed);
  const double one_way = (128 << 20) / 125e6;  // 1 Gbit/s
  EXPECT_GT(seconds_over({0.05, 125e6}), 8 * one_way);
  EXPECT_LT(seconds_over({0.05, 125e6}), 17 * (one_way + 0.05 + 0.03));
}

TEST(Simulate, TheSpanBubbleLeavesOutFillAndDrain) {
  const Timeline timeline = simulate(chain_program("gpipe", 4, 6), equal_costs(4, 1, 2));
  EXPECT_DOUBLE_EQ(timeline.span_bubble, 3 * 3);  // device 0 waits for the way to the last device and back
  EXPECT_DOUBLE_EQ(simulate(chain_program("forward-only", 4, 6), equal_costs(4, 1, 2)).span_bubble, 0);
}

/// 1663 nodes with skips, all rematerialized, over 128 devices.
TEST(Simulate, HandlesLargePlansInSeconds) {
  constexpr int kNodes = 1663, kDevices = 128, kMicroBatches = 128;
  Topology topology = chain_topology(kNodes);
  for (int node = 2; node < kNodes; ++node) topology.nodes[node].inputs.push_back(node - 1);
  for (const auto name : {NamedSchedule::zb_h1, NamedSchedule::interleaved, NamedSchedule::zb_v}) {
    const Schedule schedule = make_schedule(name, kDevices, kMicroBatches, name == NamedSchedule::zb_h1 ? 1 : 2);
    const int stages = schedule.stage_count();
    const std::clock_t begin = std::clock();
    const Program program = lower(topology, partition_uniform(kNodes, stages), schedule, std::vector<bool>(kNodes, true));
    require_valid(topology, program);
    SimulationCosts costs = equal_costs(stages, 1, 2, 1);
    costs.input_gradient = costs.weight_gradient = costs.forward;
    simulate(program, costs);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    RecordProperty(schedule.name, std::to_string(seconds));
    EXPECT_LT(seconds, 20) << schedule.name;  // 0.5 s without a sanitizer
  }
}

TEST(Simulate, TheStepWaitsForTheNormOfAllDevices) {
  const Program program = chain_program("gpipe", 2, 1);
  SimulationCosts costs = equal_costs(2, 1, 2);
  costs.step = {0.5, 0.25};
  const Timeline timeline = simulate(program, costs);
  EXPECT_DOUBLE_EQ(find(timeline, program, ActionKind::step, 1, -1).start, 6);
  EXPECT_DOUBLE_EQ(timeline.seconds, 6.5);
}

TEST(Simulate, SplitBackwardsUseTheirOwnCosts) {
  const Program program = lower(chain_topology(2), {{1, 1}}, sequential_schedule({0, 1}, 2, 1, true), {false, false});
  SimulationCosts costs;
  costs.forward = {1, 1};
  costs.input_gradient = {2, 2};
  costs.weight_gradient = {4, 4};
  EXPECT_DOUBLE_EQ(simulate(program, costs).seconds, 1 + 1 + 2 + 2 + 4);
}

TEST(Simulate, ListsActionsInTheOrderOfTheirStarts) {
  const Timeline timeline = simulate(chain_program("1f1b", 3, 5), equal_costs(3, 1, 2));
  for (std::size_t i = 1; i < timeline.actions.size(); ++i) {
    const auto &a = timeline.actions[i - 1], &b = timeline.actions[i];
    EXPECT_LE(std::tie(a.start, a.device, a.index), std::tie(b.start, b.device, b.index));
  }
}

TEST(Simulate, RefusesMissingCosts) {
  const Program program = chain_program("gpipe", 2, 1);
  SimulationCosts costs = equal_costs(2, 1, 1);
  costs.backward.pop_back();
  EXPECT_THROW(simulate(program, costs), UsageError);
  costs = equal_costs(2, 1, 1);
  costs.step = {1};
  EXPECT_THROW(simulate(program, costs), UsageError);
  costs = equal_costs(2, 1, 1);
  costs.recompute.clear();
  EXPECT_THROW(simulate(chain_program("gpipe", 2, 1, true), costs), UsageError);
}

TEST(Simulate, RefusesAProgramThatDeadlocks) {
  Program program = chain_program("gpipe", 2, 1);
  auto& actions = program.devices[0];
  const auto gradient = std::ranges::find(actions, ActionKind::recv, &Action::kind);
  std::rotate(actions.begin(), gradient, gradient + 1);  // waits for the gradient first
  EXPECT_THROW(simulate(program, equal_costs(2, 1, 1)), UsageError);
}

}  // namespace
}  // namespace sluice::parallel
