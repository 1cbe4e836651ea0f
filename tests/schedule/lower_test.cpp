#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "parallel/program/program.h"
#include "parallel/program/simulate.h"
#include "parallel/program/verify.h"
#include "parallel/schedule/named.h"
#include "tests/schedule/example_plans.h"

namespace sluice::parallel {
namespace {

const Action& find(const Program& program, ActionKind kind, int stage) {
  for (const auto& actions : program.devices)
    for (const Action& action : actions)
      if (action.kind == kind && action.stage == stage) return action;
  throw UsageError("the program has no such action");
}

/// The consumers under which stage `from` sends its contributions to the gradient of `value`, in their order.
std::vector<int> contributions(const Program& program, int value, int from) {
  std::vector<int> consumers;
  for (const auto& actions : program.devices)
    for (const Action& action : actions)
      if (action.kind == ActionKind::send && action.transfer.payload == Payload::gradient && action.transfer.value == value &&
          action.transfer.from == from && action.micro_batch == 0)
        consumers.push_back(action.transfer.consumer);
  return consumers;
}

TEST(Lower, GivesEachDeviceItsListWithSkipsGoingDirectlyToTheirConsumers) {
  const Plan plan = skip_plan({1, 2, 2}, "1f1b", 1);
  const Program program = plan.lowered();
  EXPECT_EQ(lines(program, plan.topology, 0), (Lines{
                                                  "F(stage 0, micro-batch 0)",
                                                  "Send activation 'a' of micro-batch 0 from stage 0 to stage 1",
                                                  "Send activation 'a' of micro-batch 0 from stage 0 to stage 2",
                                                  "RecvPost gradient of 'a' at 'd' of micro-batch 0 from stage 2 to stage 0",
                                                  "RecvPost gradient of 'a' at 'c' of micro-batch 0 from stage 1 to stage 0",
                                                  "RecvPost gradient of 'a' at 'b' of micro-batch 0 from stage 1 to stage 0",
                                                  "Recv gradient of 'a' at 'd' of micro-batch 0 from stage 2 to stage 0",
                                                  "Recv gradient of 'a' at 'c' of micro-batch 0 from stage 1 to stage 0",
                                                  "Recv gradient of 'a' at 'b' of micro-batch 0 from stage 1 to stage 0",
                                                  "B(stage 0, micro-batch 0)",
                                                  "SendWait activation 'a' of micro-batch 0 from stage 0 to stage 1",
                                                  "SendWait activation 'a' of micro-batch 0 from stage 0 to stage 2",
                                                  "RecvPost norm part from device 1 to device 0",
                                                  "RecvPost gradient of tied 'embedding' at 'd' from stage 2 to stage 0",
                                                  "Recv gradient of tied 'embedding' at 'd' from stage 2 to stage 0",
                                                  "ReduceTied(stage 0, 'embedding')",
                                                  "GradNorm",
                                                  "RecvPost norm part from device 2 to device 0",
                                                  "Recv norm part from device 1 to device 0",
                                                  "Recv norm part from device 2 to device 0",
                                                  "ReduceNorm",
                                                  "Send norm from device 0 to device 1",
                                                  "Send norm from device 0 to device 2",
                                                  "Step",
                                                  "SendWait norm from device 0 to device 1",
                                                  "SendWait norm from device 0 to device 2",
                                                  "Send tied weight 'embedding' at 'd' from stage 0 to stage 2",
                                                  "SendWait tied weight 'embedding' at 'd' from stage 0 to stage 2",
                                              }));
  EXPECT_EQ(lines(program, plan.topology, 2), (Lines{
                                                  "RecvPost activation 'a' of micro-batch 0 from stage 0 to stage 2",
                                                  "RecvPost activation 'c' of micro-batch 0 from stage 1 to stage 2",
                                                  "Recv activation 'a' of micro-batch 0 from stage 0 to stage 2",
                                                  "Recv activation 'c' of micro-batch 0 from stage 1 to stage 2",
                                                  "F(stage 2, micro-batch 0)",
                                                  "B(stage 2, micro-batch 0)",
                                                  "Send gradient of 'c' at 'd' of micro-batch 0 from stage 2 to stage 1",
                                                  "Send gradient of 'a' at 'd' of micro-batch 0 from stage 2 to stage 0",
                                                  "Send gradient of tied 'embedding' at 'd' from stage 2 to stage 0",
                                                  "GradNorm",
                                                  "SendWait gradient of 'c' at 'd' of micro-batch 0 from stage 2 to stage 1",
                                                  "SendWait gradient of 'a' at 'd' of micro-batch 0 from stage 2 to stage 0",
                                                  "SendWait gradient of tied 'embedding' at 'd' from stage 2 to stage 0",
                                                  "Send norm part from device 2 to device 0",
                                                  "RecvPost norm from device 0 to device 2",
                                                  "Recv norm from device 0 to device 2",
                                                  "CommitStats(stage 2)",
                                                  "SendWait norm part from device 2 to device 0",
                                                  "Step",
                                                  "RecvPost tied weight 'embedding' at 'd' from stage 0 to stage 2",
                                                  "Recv tied weight 'embedding' at 'd' from stage 0 to stage 2",
                                              }));
}

TEST(Lower, ForwardOnlyHasNoRecomputationGradientsOrStep) {
  const Plan plan = skip_plan({2, 3}, "forward-only", 1, std::vector<bool>(5, true));
  const Program program = plan.lowered();
  EXPECT_FALSE(program.training);
  EXPECT_EQ(lines(program, plan.topology, 1), (Lines{
                                                  "RecvPost activation 'a' of micro-batch 0 from stage 0 to stage 1",
                                                  "RecvPost activation 'b' of micro-batch 0 from stage 0 to stage 1",
                                                  "Recv activation 'a' of micro-batch 0 from stage 0 to stage 1",
                                                  "Recv activation 'b' of micro-batch 0 from stage 0 to stage 1",
                                                  "F(stage 1, micro-batch 0)",
                                              }));
  EXPECT_EQ(program.devices[1].back().frees.size(), 2u);
}

TEST(Lower, RecomputesBeforeItReceivesTheGradients) {
  const Plan plan = skip_plan({2, 2, 1}, "gpipe", 1, {false, false, true, false, false});
  const Lines list = lines(plan.lowered(), plan.topology, 1);
  const auto r = std::find(list.begin(), list.end(), "R(stage 1, micro-batch 0)");
  ASSERT_NE(r, list.end());
  EXPECT_EQ(Lines(r + 1, r + 5), (Lines{
                                     "SendWait activation 'd' of micro-batch 0 from stage 1 to stage 2",
                                     "RecvPost gradient of 'd' at 'loss' of micro-batch 0 from stage 2 to stage 1",
                                     "Recv gradient of 'd' at 'loss' of micro-batch 0 from stage 2 to stage 1",
                                     "B(stage 1, micro-batch 0)",
                                 }));
}

TEST(Lower, KeepsReceivedActivationsForRecomputationOnly) {
  const Program program = skip_plan({2, 3}, "gpipe", 1, {false, false, false, true, false}).lowered();  // 'd' reads 'a' again, not 'b'
  const Buffer a{Buffer::Kind::value, 1, 0, 2}, b{Buffer::Kind::value, 1, 0, 3};
  EXPECT_EQ(find(program, ActionKind::forward, 1).frees, (std::vector{b}));
  EXPECT_EQ(find(program, ActionKind::recompute, 1).frees, (std::vector{a}));
}

TEST(Lower, FreesTheTapeAndTheReceivedGradientsAfterTheBackward) {
  const Program program = skip_plan({4, 1}, "gpipe", 1).lowered();
  EXPECT_EQ(find(program, ActionKind::backward, 0).frees,
            (std::vector{Buffer{Buffer::Kind::gradient, 0, 0, 5, 4}, Buffer{Buffer::Kind::tape, 0, 0}}));
}

TEST(Lower, SplitBackwardSendsGradientsAfterIAndFreesTheTapeAfterW) {
  Plan plan = skip_plan({4, 1}, "gpipe", 1);
  plan.schedule = sequential_schedule({0, 1}, 2, 1, true);
  const Program program = plan.lowered();
  const Lines list = lines(program, plan.topology, 1);
  const auto i = std::find(list.begin(), list.end(), "I(stage 1, micro-batch 0)");
  ASSERT_NE(i, list.end());
  EXPECT_EQ(Lines(i + 1, i + 4), (Lines{
                                     "Send gradient of 'd' at 'loss' of micro-batch 0 from stage 1 to stage 0",
                                     "W(stage 1, micro-batch 0)",
                                     "SendWait gradient of 'd' at 'loss' of micro-batch 0 from stage 1 to stage 0",
                                 }));
  EXPECT_EQ(find(program, ActionKind::input_gradient, 0).frees, (std::vector{Buffer{Buffer::Kind::gradient, 0, 0, 5, 4}}));
  EXPECT_EQ(find(program, ActionKind::weight_gradient, 0).frees, (std::vector{Buffer{Buffer::Kind::tape, 0, 0}}));
}

// A V over one device: both stages on it.
TEST(Lower, StagesOfOneDeviceHandOverAtOnce) {
  Plan plan = skip_plan({4, 1}, "gpipe", 1);
  plan.schedule = make_schedule(NamedSchedule::zb_v, 1, 1);
  const Program program = plan.lowered();
  EXPECT_EQ(lines(program, plan.topology, 0), (Lines{
                                                  "F(stage 0, micro-batch 0)",
                                                  "Send activation 'd' of micro-batch 0 from stage 0 to stage 1",
                                                  "Recv activation 'd' of micro-batch 0 from stage 0 to stage 1",
                                                  "F(stage 1, micro-batch 0)",
                                                  "I(stage 1, micro-batch 0)",
                                                  "Send gradient of 'd' at 'loss' of micro-batch 0 from stage 1 to stage 0",
                                                  "Recv gradient of 'd' at 'loss' of micro-batch 0 from stage 1 to stage 0",
                                                  "W(stage 1, micro-batch 0)",
                                                  "I(stage 0, micro-batch 0)",
                                                  "W(stage 0, micro-batch 0)",
                                                  "ReduceTied(stage 0, 'embedding')",
                                                  "GradNorm",
                                                  "ReduceNorm",
                                                  "CommitStats(stage 0)",
                                                  "Step",
                                              }));
}

TEST(Lower, TiedUsesOnTwoStagesOfADeviceAreReducedBeforeItsNorm) {
  Plan plan = skip_plan({1, 4}, "gpipe", 1);
  plan.schedule = make_schedule(NamedSchedule::interleaved, 1, 1, 2);
  const Lines list = lines(plan.lowered(), plan.topology, 0);
  const auto end = std::find(list.begin(), list.end(), "Send gradient of tied 'embedding' at 'd' from stage 1 to stage 0");
  EXPECT_EQ(Lines(end, list.end()), (Lines{
                                        "Send gradient of tied 'embedding' at 'd' from stage 1 to stage 0",
                                        "Recv gradient of tied 'embedding' at 'd' from stage 1 to stage 0",
                                        "ReduceTied(stage 0, 'embedding')",
                                        "GradNorm",
                                        "ReduceNorm",
                                        "CommitStats(stage 1)",
                                        "Step",
                                        "Send tied weight 'embedding' at 'd' from stage 0 to stage 1",
                                        "Recv tied weight 'embedding' at 'd' from stage 0 to stage 1",
                                    }));
}

// 'a' is used by b, c, d: their contributions fold in the order d, c, b, whatever the partition.
TEST(Lower, TheLastConsumingStageSendsOneSumUnderItsLowestConsumer) {
  const Program program = skip_plan({1, 4}, "gpipe", 1).lowered();
  EXPECT_EQ(contributions(program, 2, 1), (std::vector{1}));
}

TEST(Lower, OtherConsumingStagesSendEachContributionByItself) {
  const Program program = skip_plan({1, 2, 2}, "gpipe", 1).lowered();
  EXPECT_EQ(contributions(program, 2, 2), (std::vector{3}));
  EXPECT_EQ(contributions(program, 2, 1), (std::vector{2, 1}));
}

TEST(Lower, AnEarlierStageThatAlsoConsumesDoesNotChangeTheSumOfTheLast) {
  const Program program = skip_plan({1, 1, 3}, "gpipe", 1).lowered();
  EXPECT_EQ(contributions(program, 2, 2), (std::vector{2}));  // d + c, already in order
  EXPECT_EQ(contributions(program, 2, 1), (std::vector{1}));
}

/// The left fold of the terms as text, "((d+c)+b)": equal texts are sums in one order.
std::string fold(const Lines& terms) {
  std::string sum;
  for (const auto& term : terms) sum = sum.empty() ? term : "(" + sum + "+" + term + ")";
  return sum;
}

/// Nodes of one stage (of any stage when it is -1) that contribute to the gradient of `value`, in descending order.
std::vector<int> contributing(const Plan& plan, int value, int stage) {
  const Topology& topology = plan.topology;
  std::vector<int> nodes;
  for (int node = topology.node_count() - 1; node >= 0; --node) {
    const auto& inputs = topology.nodes[node].inputs;
    const bool consumes =
        std::find(inputs.begin(), inputs.end(), value) != inputs.end() && topology.differentiable[topology.value_of(node)];
    if (consumes && (stage < 0 || plan.partition.stage_of(node) == stage)) nodes.push_back(node);
  }
  return nodes;
}

/// What the stages send or keep of the gradient of `value`: each term holds the nodes since the one before it.
Lines terms_of(const Plan& plan, const Program& program, int value) {
  const int producer = plan.partition.stage_of(plan.topology.node_of(value));
  Lines terms;
  for (int stage = plan.partition.stage_count() - 1; stage >= 0; --stage) {
    const auto sent = contributions(program, value, stage);
    Lines pending;
    for (int node : contributing(plan, value, stage)) {
      pending.push_back(std::to_string(node));
      if (stage != producer && std::find(sent.begin(), sent.end(), node) == sent.end()) continue;
      terms.push_back(fold(pending));
      pending.clear();
    }
  }
  return terms;
}

RC_GTEST_PROP(Lower, GradientsOfAValueFoldInDescendingNodeOrderWhateverThePartition, ()) {
  Plan plan = random_plan();
  plan.schedule = make_schedule(NamedSchedule::gpipe, plan.partition.stage_count(), 1);
  const Program program = plan.lowered();
  for (int node = 0; node < plan.topology.node_count(); ++node) {
    const int value = plan.topology.value_of(node);
    if (!plan.topology.differentiable[value]) continue;
    Lines one_by_one;
    for (int consumer : contributing(plan, value, -1)) one_by_one.push_back(std::to_string(consumer));
    RC_ASSERT(fold(terms_of(plan, program, value)) == fold(one_by_one));
  }
}

TEST(Lower, ValuesWithoutAGradientGetNoContribution) {
  Plan plan{chain_topology(3), {{1, 1, 1}}, make_schedule(NamedSchedule::gpipe, 3, 1), std::vector<bool>(3)};
  plan.topology.differentiable = {false, false, true, true};
  const Program program = plan.lowered();
  EXPECT_TRUE(contributions(program, 1, 1).empty());
  EXPECT_EQ(contributions(program, 2, 2), (std::vector{2}));
}

TEST(Lower, AConsumerWithoutAGradientContributesNothing) {
  Plan plan{chain_topology(2), {{1, 1}}, make_schedule(NamedSchedule::gpipe, 2, 1), std::vector<bool>(2)};
  plan.topology.differentiable = {false, true, false};
  EXPECT_TRUE(contributions(plan.lowered(), 1, 1).empty());
}

TEST(Lower, TiedWeightsGoOnceToEachOtherStage) {
  Plan plan{chain_topology(5), {{2, 2, 1}}, make_schedule(NamedSchedule::gpipe, 3, 1), std::vector<bool>(5)};
  plan.topology.tied = {{"w", {0, 1, 2, 3}}};
  const Lines list = lines(plan.lowered(), plan.topology, 0);
  EXPECT_EQ(std::count(list.begin(), list.end(), "Send tied weight 'w' at 'n2' from stage 0 to stage 1"), 1);
  EXPECT_EQ(std::count_if(list.begin(), list.end(), [](const auto& line) { return line.starts_with("Send tied weight"); }), 1);
  EXPECT_EQ(std::count_if(list.begin(), list.end(), [](const auto& line) { return line.starts_with("Recv gradient of tied"); }), 2);
}

TEST(Lower, UsesOfATiedParameterOnOneStageAreReducedWithoutTransfers) {
  const Plan plan = skip_plan({5}, "gpipe", 2);
  EXPECT_EQ(lines(plan.lowered(), plan.topology, 0),
            (Lines{"F(stage 0, micro-batch 0)", "F(stage 0, micro-batch 1)", "B(stage 0, micro-batch 0)", "B(stage 0, micro-batch 1)",
                   "ReduceTied(stage 0, 'embedding')", "GradNorm", "ReduceNorm", "CommitStats(stage 0)", "Step"}));
}

TEST(Lower, RefusesPartsThatDoNotBelongTogether) {
  const Topology topology = skip_topology();
  const std::vector<bool> keep(5);
  EXPECT_THROW(lower(topology, {{2, 2}}, make_schedule(NamedSchedule::gpipe, 2, 1), keep), UsageError);
  EXPECT_THROW(lower(topology, {{2, 3}}, make_schedule(NamedSchedule::gpipe, 3, 1), keep), UsageError);
  EXPECT_THROW(lower(topology, {{2, 3}}, make_schedule(NamedSchedule::gpipe, 2, 1), {true}), UsageError);
  EXPECT_THROW(lower(topology, {{5, 0}}, make_schedule(NamedSchedule::gpipe, 2, 1), keep), UsageError);

  Schedule schedule = make_schedule(NamedSchedule::gpipe, 2, 1);
  schedule.devices[0][0].stage = 1;
  EXPECT_THROW(lower(topology, {{2, 3}}, schedule, keep), UsageError);
  schedule = make_schedule(NamedSchedule::gpipe, 2, 1);
  schedule.devices[0][0].micro_batch = 1;
  EXPECT_THROW(lower(topology, {{2, 3}}, schedule, keep), UsageError);

  Topology cyclic = topology;
  cyclic.nodes[1].inputs = {4};
  EXPECT_THROW(lower(cyclic, {{2, 3}}, make_schedule(NamedSchedule::gpipe, 2, 1), keep), UsageError);
  Topology unordered = topology;
  unordered.tied[0].nodes = {3, 0};
  EXPECT_THROW(lower(unordered, {{2, 3}}, make_schedule(NamedSchedule::gpipe, 2, 1), keep), UsageError);
}

RC_GTEST_PROP(Lower, EveryPlanGivesAProgramThatIsVerifiedAndRunsToItsEnd, ()) {
  const Plan plan = random_plan();
  const Program program = plan.lowered();
  const auto found = verify(plan.topology, program);
  if (found) RC_FAIL(join(found->reason, " in ", plan));

  const std::vector<double> ones(program.stage_count(), 1.0);
  const std::vector<double> bytes(plan.topology.value_count(), 1.0);
  const Timeline timeline = simulate(program, {ones, ones, ones, ones, ones, ones, bytes, {{0.1, 10}, {}}});
  std::size_t actions = 0;
  for (const auto& list : program.devices) actions += list.size();
  RC_ASSERT(timeline.actions.size() == actions);
}

}  // namespace
}  // namespace sluice::parallel
