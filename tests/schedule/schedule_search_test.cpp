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

/// A model of random costs.
ModelCost random_model(const Topology& topology) {
  ModelCost model;
  for (int node = 0; node < topology.node_count(); ++node)
    model.nodes.push_back({.forward = pick(0, 20) / 8.0,
                           .backward = pick(0, 20) / 8.0,
                           .input_gradient = pick(0, 20) / 8.0,
                           .weight_gradient = pick(0, 20) / 8.0,
                           .recompute = pick(0, 20) / 8.0,
                           .step = pick(0, 20) / 8.0,
                           .wire_bytes = 8 * pick(0, 5),
                           .keeps_input = std::vector<bool>(topology.nodes[node].inputs.size())});
  model.input_bytes.assign(topology.inputs.size(), 0);
  model.tied_bytes.assign(topology.tied.size(), 0);
  for (size_t tied = 0; tied < topology.tied.size(); ++tied) model.tied_wire.push_back({8.0 * pick(0, 9), 8.0 * pick(0, 9)});
  model.norm = {8.0 * pick(0, 9), 8.0};
  return model;
}

/// Slow and fast links, the same for all, of each device, or of some pairs.
Links random_links(int devices) {
  const auto link = [] { return Link{pick(0, 3) / 8.0, pick(0, 4) * 8.0}; };
  Links links{link(), {}};
  if (pick(0, 2))
    for (int device = 0; device < devices; ++device) links.of_device.push_back(link());
  for (int pairs = pick(0, 3); pairs-- > 0;) links.of_pair[{pick(0, devices), pick(0, devices)}] = link();
  return links;
}

/// What `simulate` needs of the stages and the model that `costs` were made of.
SimulationCosts simulation_costs(const Topology& topology, const ModelCost& model, const StageCosts& costs, const Schedule& schedule) {
  SimulationCosts all{costs.forward, costs.backward, costs.input_gradient, costs.weight_gradient, costs.recompute, {}, {}, costs.links};
  all.step.assign(schedule.devices.size(), 0);
  for (int stage = 0; stage < schedule.stage_count(); ++stage) all.step[schedule.device_of_stage[stage]] += costs.step[stage];
  all.value_bytes.assign(topology.inputs.size(), 0);
  for (const NodeCost& node : model.nodes) all.value_bytes.push_back(static_cast<double>(node.wire_bytes));
  all.norm = costs.norm;
  all.tied = model.tied_wire;
  return all;
}

/// That of skip_topology().
ModelCost skip_model(const Topology& topology) {
  ModelCost model{std::vector<NodeCost>(5), {0, 0}, {0}};
  for (int node = 0; node < 5; ++node) {
    model.nodes[node].wire_bytes = 8 << node;
    model.nodes[node].keeps_input.resize(topology.nodes[node].inputs.size());
  }
  return model;
}

/// When the last computation on a micro-batch ends.
double last_computation(const Program& program, const Timeline& timeline) {
  double last = 0;
  for (const auto& action : timeline.actions) {
    const Action& what = program.devices[action.device][action.index];
    if (what.micro_batch >= 0 && what.transfer.payload == Payload::none) last = std::max(last, action.end);
  }
  return last;
}

/// The search and the simulation of what it found give one number: skips, several values a link, several stages a device, recomputation,
/// tied parameters, every kind of link.
RC_GTEST_PROP(TimeSchedule, TakesAsLongAsTheSimulatedProgramOfAnyGraph, ()) {
  const Topology topology = random_topology();
  const Partition partition = random_partition(topology.node_count());
  const int stages = partition.stage_count();
  const ModelCost model = random_model(topology);
  std::vector<bool> marks(topology.node_count());
  for (auto&& mark : marks) mark = pick(0, 2) == 0;
  std::vector<StageCost> stage_costs;
  for (int stage = 0; stage < stages; ++stage)
    stage_costs.push_back(stage_cost(topology, model, partition.first_node(stage), partition.end_node(stage), marks));
  const StageCosts costs = chain_of(topology, model, partition, stage_costs, random_links(stages));
  if (stages > 1 && costs.activations.empty()) return;  // stages that share nothing count as a chain
  const Schedule schedule = pick(0, 2) ? random_schedule(stages) : search_schedule(costs, random_placement(stages), pick(1, 10)).schedule;
  const Program program = lower(topology, partition, schedule, marks, kOpenWindow);
  require_valid(topology, program);
  const Timeline timeline = simulate(program, simulation_costs(topology, model, costs, schedule));
  const ScheduleTiming timing = time_schedule(schedule, costs);
  RC_ASSERT(std::abs(timing.seconds - last_computation(program, timeline)) < kRounding);
  RC_ASSERT(timing.step_seconds >= timeline.seconds - kRounding);
  if (topology.tied.empty()) RC_ASSERT(timing.step_seconds <= timeline.seconds + kRounding);  // else the norm may overtake what is tied
}

TEST(TimeSchedule, HasTheWaysOfTiedParameters) {
  const Topology topology = skip_topology();  // the first stage and the last one share a parameter
  const Partition partition{{1, 2, 2}};
  const std::vector<bool> keep(5);
  ModelCost model = skip_model(topology);
  const Schedule schedule = make_schedule(NamedSchedule::one_f_one_b, 3, 4);
  std::vector<StageCost> stages;
  for (int stage = 0; stage < 3; ++stage)
    stages.push_back(stage_cost(topology, model, partition.first_node(stage), partition.end_node(stage), keep));
  const auto seconds = [&](double gradient_bytes, double weight_bytes) {
    model.tied_wire = {{gradient_bytes, weight_bytes}};
    const StageCosts costs = chain_of(topology, model, partition, stages, {{0.5, 8}, {}});
    const Program program = lower(topology, partition, schedule, keep, kOpenWindow);
    const double step = time_schedule(schedule, costs).step_seconds;
    EXPECT_NEAR(step, simulate(program, simulation_costs(topology, model, costs, schedule)).seconds, kRounding);
    return step;
  };
  EXPECT_NEAR(seconds(160, 80) - seconds(16, 8), (144 + 72) / 8.0, kRounding);
}

RC_GTEST_PROP(TimeSchedule, TakesAsLongAsTheSimulatedProgramOfAChain, ()) {
  const int stages = pick(1, 9);
  const Schedule schedule = random_schedule(stages);
  StageCosts costs = random_stage_costs(stages);
  costs.step = random_costs(stages);
  ModelCost model;
  for (int stage = 0; stage < stages; ++stage) model.nodes.push_back({.wire_bytes = static_cast<int64_t>(cost_at(costs.transfer, stage))});
  if (!costs.transfer.empty())
    for (int stage = 0; stage < stages; ++stage) costs.transfer[stage] = static_cast<double>(model.nodes[stage].wire_bytes);
  const Topology topology = chain_topology(stages);
  const Program program =
      lower(topology, partition_uniform(stages, stages), schedule, std::vector<bool>(stages, !costs.recompute.empty()), kOpenWindow);
  require_valid(topology, program);
  const Timeline timeline = simulate(program, simulation_costs(topology, model, costs, schedule));
  const ScheduleTiming timing = time_schedule(schedule, costs);
  RC_ASSERT(std::abs(timing.seconds - last_computation(program, timeline)) < kRounding);
  RC_ASSERT(std::abs(timing.step_seconds - timeline.seconds) < kRounding);
}

/// Stage 0 feeds 1 and 2, which feed 3.
StageCosts diamond_costs() {
  StageCosts costs = equal_stage_costs(4, 1, 1, 1);
  costs.activations = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  costs.gradients = {{1, 0}, {2, 0}, {3, 1}, {3, 2}};
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
  diamond.activations = diamond_costs().activations;
  diamond.gradients = diamond_costs().gradients;
  const std::vector<int> placement{0, 1, 0, 1};
  EXPECT_EQ(time_schedule(search_schedule(chain, placement, 2).schedule, diamond).seconds, 36);
  EXPECT_EQ(search_schedule(diamond, placement, 2).timing.seconds, 31);
}

TEST(ChainOf, LinksStagesByWhatTheyExchange) {
  const Topology topology = skip_topology();  // 'a' skips from stage 0 to 'd' in stage 2
  const Partition partition{{1, 2, 2}};
  ModelCost model = skip_model(topology);
  model.tied_wire = {{4, 2}};
  const StageCosts chain = chain_of(topology, model, partition, std::vector<StageCost>(3), {{0, 1}, {}});
  EXPECT_EQ(chain.activations, (std::vector<StageTransfer>{{0, 1, 8}, {0, 2, 8}, {1, 2, 32}}));
  EXPECT_EQ(chain.gradients, (std::vector<StageTransfer>{{1, 0, 16}, {2, 1, 32}, {2, 0, 8}}))
      << "two contributions of 'a' by themselves go as one transfer; of stage 2 comes one sum";
  EXPECT_EQ(chain.tied_gradients, (std::vector<StageTransfer>{{2, 0, 4}}));
  EXPECT_EQ(chain.tied_weights, (std::vector<StageTransfer>{{0, 2, 2}}));
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
