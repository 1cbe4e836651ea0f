#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "parallel/plan/stage_chain.h"
#include "parallel/program/simulate.h"
#include "parallel/program/verify.h"
#include "parallel/schedule/named.h"
#include "parallel/schedule/search.h"
#include "tests/schedule/example_plans.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

constexpr double kRounding = 1e-9;

/// The named schedules that have this placement.
std::vector<Schedule> named(const std::vector<int>& placement, int micro_batches) {
  std::vector<Schedule> all;
  for (const NamedSchedule name : kNamedSchedules) {
    try {
      all.push_back(make_schedule(name, placement, micro_batches));
    } catch (const UsageError&) {
    }
  }
  return all;
}

std::vector<int> placement_of_any_kind(int stages) {
  const int kind = pick(0, 4);
  if (kind == 0) return random_placement(stages);
  if (kind == 1 && stages % 2 == 0) return stage_placement(NamedSchedule::zb_v, stages / 2);
  if (kind == 2 && stages % 2 == 0) return stage_placement(NamedSchedule::interleaved, stages / 2, 2);
  return stage_placement(NamedSchedule::one_f_one_b, stages);
}

/// When the last computation of a program ends; norms and messages under way come on top of that.
double simulated_seconds(const Topology& topology, const Program& program, const StageCosts& costs) {
  require_valid(topology, program);
  SimulationCosts all;
  all.forward = costs.forward;
  all.backward = costs.backward;
  all.input_gradient = costs.input_gradient;
  all.weight_gradient = costs.weight_gradient;
  all.recompute = costs.recompute;
  all.value_bytes.assign(topology.inputs.size(), 0);
  all.value_bytes.insert(all.value_bytes.end(), costs.transfer.begin(), costs.transfer.end());
  all.value_bytes.resize(topology.value_count());
  all.links.all = {costs.latency, 1};
  double last = 0;
  for (const auto& action : simulate(program, all).actions) {
    const Action& what = program.devices[action.device][action.index];
    if (what.micro_batch >= 0 && what.transfer.payload == Payload::none) last = std::max(last, action.end);
  }
  return last;
}

RC_GTEST_PROP(TimeSchedule, TakesAsLongAsTheSimulatedProgramOfAChain, ()) {
  const int stages = pick(1, 9);
  const Schedule schedule = random_schedule(stages);
  const StageCosts costs = random_stage_costs(stages);
  const Topology topology = chain_topology(stages);
  const Program program = lower(topology, partition_uniform(stages, stages), schedule, std::vector<bool>(stages, !costs.recompute.empty()));
  RC_ASSERT(std::abs(time_schedule(schedule, costs).seconds - simulated_seconds(topology, program, costs)) < kRounding);
}

/// The costs of a model's stages from random ones of its nodes; links have a latency and no end of bandwidth.
StageCosts random_model_costs(const Topology& topology, const Partition& partition) {
  ModelCost model;
  for (int node = 0; node < topology.node_count(); ++node)
    model.nodes.push_back({.forward = pick(0, 20) / 8.0,
                           .backward = pick(0, 20) / 8.0,
                           .input_gradient = pick(0, 20) / 8.0,
                           .weight_gradient = pick(0, 20) / 8.0,
                           .keeps_input = std::vector<bool>(topology.nodes[node].inputs.size())});
  model.input_bytes.assign(topology.inputs.size(), 0);
  model.tied_bytes.assign(topology.tied.size(), 0);
  const std::vector<bool> keep(topology.node_count());
  std::vector<StageCost> stages;
  for (int stage = 0; stage < partition.stage_count(); ++stage)
    stages.push_back(stage_cost(topology, model, partition.first_node(stage), partition.end_node(stage), keep));
  const std::vector<int> placement(partition.sizes.size(), 0);
  return chain_of(topology, model, partition, stages, placement, {{pick(0, 3) / 8.0, 0}, {}});
}

RC_GTEST_PROP(TimeSchedule, TakesAsLongAsTheSimulatedProgramOfAnyGraph, ()) {
  const Topology topology = random_topology();
  const Partition partition = random_partition(topology.node_count());
  StageCosts costs = random_model_costs(topology, partition);
  const int stages = partition.stage_count();
  if (stages > 1 && costs.links.empty()) return;  // stages that share nothing count as a chain
  const Schedule schedule = pick(0, 2) ? random_schedule(stages) : search_schedule(costs, random_placement(stages), pick(1, 10)).schedule;
  const Program program = lower(topology, partition, schedule, std::vector<bool>(topology.node_count()));
  RC_ASSERT(std::abs(time_schedule(schedule, costs).seconds - simulated_seconds(topology, program, costs)) < kRounding);
}

/// Stage 0 feeds 1 and 2, which feed 3.
StageCosts diamond_costs() {
  StageCosts costs = equal_stage_costs(4, 1, 1, 1);
  costs.links = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  return costs;
}

TEST(SearchSchedule, LetsStagesSideBySideRunAtOnce) {
  const StageCosts chain = equal_stage_costs(4, 1, 1, 1);
  EXPECT_EQ(search_schedule(chain, {0, 1, 2, 3}, 1).timing.seconds, 9);  // 4 F, 4 I, 1 W
  EXPECT_EQ(search_schedule(diamond_costs(), {0, 1, 2, 3}, 1).timing.seconds, 7);
}

TEST(SearchSchedule, FindsABetterOrderThanForAChain) {
  StageCosts chain;
  chain.forward = {3, 1, 2, 2};
  chain.backward = {6, 2, 4, 4};
  StageCosts diamond = chain;
  diamond.links = diamond_costs().links;
  const std::vector<int> placement{0, 1, 0, 1};
  EXPECT_EQ(time_schedule(search_schedule(chain, placement, 2).schedule, diamond).seconds, 36);
  EXPECT_EQ(search_schedule(diamond, placement, 2).timing.seconds, 31);
}

TEST(ChainOf, LinksStagesByWhatTheyExchange) {
  const Topology topology = skip_topology();  // 'a' skips from stage 0 to 'd' in stage 2
  const Partition partition{{1, 2, 2}};
  ModelCost model{std::vector<NodeCost>(5), {0, 0}, {0}};
  for (int node = 0; node < 5; ++node) {
    model.nodes[node].output_bytes = 8 << node;
    model.nodes[node].keeps_input.resize(topology.nodes[node].inputs.size());
  }
  const auto links = chain_of(topology, model, partition, std::vector<StageCost>(3), {0, 1, 2}, {{0, 1}, {}}).links;
  ASSERT_EQ(links.size(), 3u);
  EXPECT_EQ(std::pair(links[1].from, links[1].to), std::pair(0, 2));
  EXPECT_EQ(links[1].activation, 8);
  EXPECT_EQ(links[0].gradient, 16) << "two contributions of 'a' by themselves";
  EXPECT_EQ(links[1].gradient, 8) << "one sum";
}

TEST(TimeSchedule, HoldsWhatForwardsKeepUntilTheirBackwards) {
  const StageCosts costs = equal_stage_costs(4, 1, 1, 1);
  EXPECT_EQ(time_schedule(make_schedule(NamedSchedule::gpipe, 4, 6), costs).peak_bytes, (std::vector<double>{6, 6, 6, 6}));
  EXPECT_EQ(time_schedule(make_schedule(NamedSchedule::one_f_one_b, 4, 6), costs).peak_bytes, (std::vector<double>{4, 3, 2, 1}));
  EXPECT_EQ(time_schedule(make_schedule(NamedSchedule::zb_h1, 4, 12), costs).peak_bytes, (std::vector<double>{4, 4, 4, 4}));
}

TEST(TimeSchedule, RefusesACircleAndMissingCosts) {
  Schedule circle = make_schedule(NamedSchedule::gpipe, 2, 1);
  std::swap(circle.devices[0][0], circle.devices[0][1]);
  EXPECT_THROW(time_schedule(circle, equal_stage_costs(2, 1, 1, 1)), UsageError);
  EXPECT_THROW(time_schedule(make_schedule(NamedSchedule::gpipe, 2, 1), equal_stage_costs(3, 1, 1, 1)), UsageError);
  StageCosts whole = equal_stage_costs(2, 1, 1, 1);
  whole.weight_gradient.clear();
  EXPECT_NO_THROW(time_schedule(make_schedule(NamedSchedule::gpipe, 2, 1), whole));
  EXPECT_THROW(time_schedule(make_schedule(NamedSchedule::zb_h1, 2, 1), whole), UsageError);
  whole.forward[1] = -1;
  EXPECT_THROW(time_schedule(make_schedule(NamedSchedule::gpipe, 2, 1), whole), UsageError);
}

RC_GTEST_PROP(SearchSchedule, GivesValidProgramsNeverSlowerThanNamedOnes, ()) {
  const int stages = pick(1, 9), micro_batches = pick(1, 13);
  const StageCosts costs = random_stage_costs(stages);
  const auto placement = placement_of_any_kind(stages);
  const FoundSchedule found = search_schedule(costs, placement, micro_batches);
  RC_ASSERT(found.fits);
  RC_ASSERT(found.schedule.device_of_stage == placement);
  const Topology topology = chain_topology(stages);
  const auto fault = verify(topology, lower(topology, partition_uniform(stages, stages), found.schedule, std::vector<bool>(stages)));
  if (fault) RC_FAIL(fault->reason);
  RC_ASSERT(found.timing.seconds == time_schedule(found.schedule, costs).seconds);
  for (const Schedule& other : named(placement, micro_batches))
    RC_ASSERT(found.timing.seconds <= time_schedule(other, costs).seconds + kRounding);
}

RC_GTEST_PROP(SearchSchedule, KeepsToTheByteCapWhereverANamedScheduleDoes, ()) {
  const int stages = pick(1, 9), micro_batches = pick(1, 13);
  StageCosts costs = random_stage_costs(stages);
  costs.kept = random_costs(stages);
  const auto placement = placement_of_any_kind(stages);
  const int devices = *std::max_element(placement.begin(), placement.end()) + 1;
  std::vector<double> cap(devices);
  for (double& bytes : cap) bytes = pick(0, 80) / 8.0;
  const auto keeps = [&](const ScheduleTiming& timing) {
    return std::equal(cap.begin(), cap.end(), timing.peak_bytes.begin(),
                      [](double most, double peak) { return peak <= most + kRounding * most; });
  };
  const FoundSchedule found = search_schedule(costs, placement, micro_batches, cap);
  RC_ASSERT(found.fits == keeps(found.timing));
  for (const Schedule& other : named(placement, micro_batches)) {
    const ScheduleTiming timing = time_schedule(other, costs);
    if (keeps(timing)) RC_ASSERT(found.fits && found.timing.seconds <= timing.seconds + kRounding);
  }
}

RC_GTEST_PROP(SearchSchedule, FitsWhenEachDeviceHoldsOneMicroBatchOfItsStages, ()) {
  const int stages = pick(1, 9), micro_batches = pick(1, 13);
  StageCosts costs = random_stage_costs(stages);
  costs.kept = random_costs(stages);
  costs.kept_for_weights.clear();
  const auto placement = placement_of_any_kind(stages);
  std::vector<double> cap(*std::max_element(placement.begin(), placement.end()) + 1, 0);
  for (int stage = 0; stage < stages; ++stage) cap[placement[stage]] += costs.kept[stage];
  RC_ASSERT(search_schedule(costs, placement, micro_batches, cap).fits);
}

TEST(SearchSchedule, ReachesTheZeroBubbleSchedulesOnEqualCosts) {
  const StageCosts costs = equal_stage_costs(4, 1, 1, 1);
  EXPECT_LE(search_schedule(costs, {0, 1, 2, 3}, 12).timing.seconds, 36 + 3);
  EXPECT_LE(search_schedule(equal_stage_costs(8, 0.5, 0.5, 0.5), stage_placement(NamedSchedule::zb_v, 4), 12).timing.seconds,
            36 + 1.5 + kRounding);
}

TEST(SearchSchedule, ReachesZbH1InItsMemory) {
  const FoundSchedule found = search_schedule(equal_stage_costs(4, 1, 1, 1), {0, 1, 2, 3}, 12, {4, 4, 4, 4});
  EXPECT_TRUE(found.fits);
  EXPECT_LE(found.timing.seconds, 36 + 3);
}

TEST(SearchSchedule, BeatsEveryNamedScheduleOnUnequalStages) {
  StageCosts costs = equal_stage_costs(4, 1, 1.1, 0.9);
  costs.forward = {1, 1.7, 1.4, 1.1};
  const FoundSchedule found = search_schedule(costs, {0, 1, 2, 3}, 12);
  for (const Schedule& other : named({0, 1, 2, 3}, 12))
    EXPECT_LT(found.timing.seconds, 0.99 * time_schedule(other, costs).seconds) << other.name;
}

TEST(SearchSchedule, KeepsBackwardsWholeWhereSplittingCosts) {
  StageCosts costs = equal_stage_costs(3, 1, 1, 1);
  costs.backward.assign(3, 1.2);
  const FoundSchedule found = search_schedule(costs, {0, 1, 2}, 6);
  for (const auto& order : found.schedule.devices)
    for (const auto& action : order) EXPECT_TRUE(action.kind == Compute::forward || action.kind == Compute::backward);
}

TEST(SearchSchedule, SaysWhenNothingFits) {
  const FoundSchedule found = search_schedule(equal_stage_costs(2, 1, 1, 1), {0, 1}, 4, {0.5, 5});
  EXPECT_FALSE(found.fits);
  EXPECT_EQ(found.timing.peak_bytes[0], 1);
}

TEST(SearchSchedule, IsTheSameEachTime) {
  const StageCosts costs = equal_stage_costs(6, 1, 1.3, 0.7);
  const auto placement = stage_placement(NamedSchedule::interleaved, 3, 2);
  EXPECT_EQ(search_schedule(costs, placement, 7).schedule.devices, search_schedule(costs, placement, 7).schedule.devices);
}

TEST(SearchSchedule, RefusesWhatDoesNotBelongTogether) {
  const StageCosts costs = equal_stage_costs(2, 1, 1, 1);
  EXPECT_THROW(search_schedule(costs, {0, 1, 2}, 4), UsageError);
  EXPECT_THROW(search_schedule(costs, {0, 2}, 4), UsageError);
  EXPECT_THROW(search_schedule(costs, {0, 1}, 0), UsageError);
  EXPECT_THROW(search_schedule(costs, {0, 1}, 4, {1}), UsageError);
  EXPECT_THROW(search_schedule(costs, {}, 4), UsageError);
}

}  // namespace
}  // namespace sluice::parallel
