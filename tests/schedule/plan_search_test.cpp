#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "core/error.h"
#include "parallel/plan/counted_bytes.h"
#include "parallel/plan/cut.h"
#include "parallel/plan/search.h"
#include "parallel/plan/stage_chain.h"
#include "parallel/schedule/named.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kMuch = int64_t{1} << 50;

/// A chain with now and then a skip over one node.
Topology random_topology(int nodes) {
  Topology topology;
  topology.inputs = {"x"};
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> inputs{topology.value_of(node) - 1};
    if (node >= 2 && pick(0, 4) == 0) inputs.push_back(topology.value_of(node) - 2);
    topology.nodes.push_back({"node" + std::to_string(node), inputs, false});
  }
  topology.differentiable.assign(topology.value_count(), true);
  topology.differentiable[0] = false;
  return topology;
}

NodeCost random_node(size_t inputs) {
  NodeCost cost;
  cost.forward = pick(1, 20);
  cost.input_gradient = pick(1, 20);
  cost.weight_gradient = pick(0, 20);
  cost.backward = pick(0, 2) == 0 ? pick(1, 30) : cost.input_gradient + cost.weight_gradient;  // as measured, or as counted
  cost.recompute = cost.forward;
  cost.step = pick(0, 3);
  cost.state_bytes = pick(0, 30);
  cost.output_bytes = cost.wire_bytes = pick(1, 10);
  cost.tape_bytes = pick(0, 40);
  cost.keeps_output = pick(0, 2) == 0;
  for (size_t i = 0; i < inputs; ++i) cost.keeps_input.push_back(pick(0, 2) == 0);
  cost.deferred_bytes = cost.tape_bytes / 2;
  cost.bare_forward_bytes = cost.output_bytes + pick(0, 5);
  cost.forward_peak_bytes = cost.bare_forward_bytes + cost.tape_bytes;
  cost.backward_peak_bytes = pick(1, 20);
  cost.weight_gradient_bytes = pick(0, 5);
  return cost;
}

/// The same node on another kind of device: its times differ, and what it needs in passing.
NodeCost on_another_kind(NodeCost cost) {
  const double factor = pick(1, 9) / 4.0;
  for (const auto part : {&NodeCost::forward, &NodeCost::backward, &NodeCost::input_gradient, &NodeCost::weight_gradient,
                          &NodeCost::recompute, &NodeCost::step})
    cost.*part *= pick(0, 3) == 0 ? pick(1, 9) / 4.0 : factor;
  cost.backward_peak_bytes += pick(0, 10);
  return cost;
}

PlanProblem random_problem(int nodes, int devices) {
  PlanProblem problem;
  problem.topology = random_topology(nodes);
  problem.choices.micro_batches = {1, 3};
  std::vector<int> kinds;
  for (int device = 0; device < devices; ++device) kinds.push_back(pick(0, 2));
  for (const auto& family : all_schedule_families(devices, nodes)) problem.choices.schedules.push_back(family);
  for (const int number : problem.choices.micro_batches) {
    ModelCosts& costs = problem.costs[number];
    ModelCost model;
    for (const auto& node : problem.topology.nodes) model.nodes.push_back(random_node(node.inputs.size()));
    model.input_bytes = {pick(0, 5)};
    costs.kinds.push_back(model);
    for (NodeCost& node : model.nodes) node = on_another_kind(node);
    costs.kinds.push_back(std::move(model));
    costs.kind_of_device = kinds;
  }
  problem.budgets.assign(devices, pick(0, 3) == 0 ? kMuch : pick(60, 500));
  problem.links.all = {pick(0, 3) * 0.5, pick(0, 2) == 0 ? 0.0 : 4.0};
  return problem;
}

template <class Visit>
void for_all_cuts(int nodes, int stages, Partition& partition, Visit visit) {
  if (stages == 1) {
    partition.sizes.push_back(nodes);
    visit(partition);
    partition.sizes.pop_back();
    return;
  }
  for (int size = 1; size <= nodes - stages + 1; ++size) {
    partition.sizes.push_back(size);
    for_all_cuts(nodes - size, stages - 1, partition, visit);
    partition.sizes.pop_back();
  }
}

/// What a device really holds.
using Bytes = std::function<int64_t(const Schedule&, const Partition&, int device, int64_t estimate)>;

/// Seconds of one plan, infinite when a device passes its budget. Only what is named by a schedule: open orders are searched, not listed.
double seconds_of(const PlanProblem& problem, int number, const Schedule& schedule, const Partition& partition,
                  const std::vector<bool>& marks, const Bytes& bytes) {
  const auto stages = stage_costs(problem.topology, problem.costs.at(number), partition, schedule.device_of_stage, marks);
  for (int device = 0; device < schedule.device_count(); ++device)
    if (bytes(schedule, partition, device, device_peak_bytes(schedule, stages, device)) > problem.budgets[device])
      return std::numeric_limits<double>::infinity();
  return time_schedule(schedule, chain_of(problem.topology, problem.costs.at(number).any(), partition, stages, problem.links)).step_seconds;
}

/// Of schedules that are named, without segments.
template <class Visit>
void for_all_plans(const PlanProblem& problem, const Bytes& bytes, Visit visit) {
  const int nodes = problem.topology.node_count(), devices = static_cast<int>(problem.budgets.size());
  for (const int number : problem.choices.micro_batches)
    for (const auto& family : problem.choices.schedules) {
      const Schedule schedule = order_of(family, devices, number);
      Partition empty;
      for_all_cuts(nodes, schedule.stage_count(), empty, [&](const Partition& partition) {
        for (int bits = 0; bits < 1 << nodes; ++bits) {
          std::vector<bool> marks(nodes);
          for (int node = 0; node < nodes; ++node) marks[node] = bits >> node & 1;
          visit(seconds_of(problem, number, schedule, partition, marks, bytes));
        }
      });
    }
}

int64_t as_estimated(const Schedule&, const Partition&, int, int64_t estimate) { return estimate; }

double best_by_enumeration(const PlanProblem& problem, const Bytes& bytes = as_estimated) {
  double best = std::numeric_limits<double>::infinity();
  for_all_plans(problem, bytes, [&](double seconds) { best = std::min(best, seconds); });
  return best;
}

RC_GTEST_PROP(PlanSearch, EqualsTheBestOfAllSmallJointPlans, ()) {
  const int devices = pick(1, 4);
  PlanProblem problem = random_problem(pick(devices, 6), devices);
  std::erase_if(problem.choices.schedules, [](const ScheduleFamily& family) { return family.is_open; });
  problem.exhaustive_limit = 1 << 14;
  problem.choices.segments = false;
  const PlanSearchResult found = search_plan(problem);
  const double best = best_by_enumeration(problem);
  RC_ASSERT(found.is_exact);
  RC_ASSERT(found.best.has_value() == std::isfinite(best));
  if (found.best) RC_ASSERT(std::abs(found.best->seconds - best) <= 1e-9 * best);
}

/// Where bytes can be counted, a plan that keeps to its budgets by them is found though its estimate is above, and none that does not.
RC_GTEST_PROP(PlanSearch, EqualsTheBestOfAllSmallJointPlansByCountedBytes, ()) {
  const int devices = pick(1, 4);
  PlanProblem problem = random_problem(pick(devices, 6), devices);
  std::erase_if(problem.choices.schedules, [](const ScheduleFamily& family) { return family.is_open; });
  problem.exhaustive_limit = 1 << 14;
  problem.choices.segments = false;
  std::map<std::vector<int>, double> factors;  // of the estimate, by device and its stages
  const Bytes bytes = [&](const Schedule& schedule, const Partition& partition, int device, int64_t estimate) {
    std::vector<int> stages{device};
    for (int stage = 0; stage < partition.stage_count(); ++stage)
      if (schedule.device_of_stage[stage] == device) stages.insert(stages.end(), {partition.first_node(stage), partition.sizes[stage]});
    const auto [factor, is_new] = factors.try_emplace(stages, 1.0);
    if (is_new) factor->second = pick(70, 125) / 100.0;
    return static_cast<int64_t>(factor->second * static_cast<double>(estimate));
  };
  const auto count = [&](const FoundPlan& plan) {
    std::vector<int64_t> counted;
    for (int device = 0; device < devices; ++device)
      counted.push_back(bytes(plan.schedule, plan.partition, device, plan.peak_bytes[device]));
    return counted;
  };
  CountedBytes counted(problem.topology, count, std::numeric_limits<int>::max());
  problem.counted = &counted;
  const PlanSearchResult found = search_plan(problem);
  const double best = best_by_enumeration(problem, bytes);
  RC_ASSERT(found.best.has_value() == std::isfinite(best));
  if (found.best) RC_ASSERT(std::abs(found.best->seconds - best) <= 1e-9 * best);
}

/// The budgets of the search are estimates. What it calls the fastest whatever devices really hold is so without any budget, too.
RC_GTEST_PROP(PlanSearch, SaysWhenABudgetRuledAFasterPlanOut, ()) {
  const int devices = pick(1, 4);
  PlanProblem problem = random_problem(pick(devices, 5), devices);
  std::erase_if(problem.choices.schedules, [](const ScheduleFamily& family) { return family.is_open; });
  problem.exhaustive_limit = 1 << 14;
  problem.choices.segments = false;
  const PlanSearchResult found = search_plan(problem);
  if (!found.best) return;
  std::ranges::fill(problem.budgets, kMuch);
  const double best = best_by_enumeration(problem);
  RC_ASSERT((found.ruled_out_seconds >= found.best->seconds) == (found.best->seconds <= best * (1 + 1e-12)));
}

RC_GTEST_PROP(PlanSearch, HasABoundThatNoPlanBeats, ()) {
  const int devices = pick(1, 4);
  PlanProblem problem = random_problem(pick(devices, 5), devices);
  const double bound = search_plan(problem).bound_seconds;
  std::erase_if(problem.choices.schedules, [](const ScheduleFamily& family) { return family.is_open; });
  std::ranges::fill(problem.budgets, kMuch);
  for_all_plans(problem, as_estimated, [&](double seconds) { RC_ASSERT(seconds >= bound * (1 - 1e-12)); });
}

RC_GTEST_PROP(PlanSearch, OfLargerProblemsKeepsToBudgetsAndItsBound, ()) {
  const int devices = pick(2, 5);
  PlanProblem problem = random_problem(pick(2 * devices, 20), devices);
  problem.exhaustive_limit = 0;
  for (auto& budget : problem.budgets) budget *= 4;
  const PlanSearchResult found = search_plan(problem);
  if (!found.best) return;
  RC_ASSERT(!found.is_exact);
  RC_ASSERT(found.best->seconds >= found.bound_seconds * (1 - 1e-9));
  const FoundPlan& plan = *found.best;
  const Schedule order = in_segments(plan.schedule, plan.segments);
  const auto stages =
      stage_costs(problem.topology, problem.costs.at(plan.micro_batches), plan.partition, order.device_of_stage, plan.rematerialize);
  for (int device = 0; device < devices; ++device) RC_ASSERT(device_peak_bytes(order, stages, device) <= problem.budgets[device]);
  RC_ASSERT(plan.partition.node_count() == problem.topology.node_count());
}

/// Without trying all plans the search comes near the best where the best is known: within a quarter in 999 of 1,000 such problems.
TEST(PlanSearch, WithoutTryingAllPlansComesNearTheBest) {
  int problems = 0, near = 0;
  const bool is_never_twice_as_slow = rc::check([&] {
    const int devices = pick(1, 4);
    PlanProblem problem = random_problem(pick(devices, 6), devices);
    std::ranges::fill(problem.budgets, kMuch);
    problem.choices.rematerialize = std::vector<bool>(problem.topology.node_count(), false);
    const double best = search_plan(problem).best->seconds;
    problem.exhaustive_limit = 0;
    const double found = search_plan(problem).best->seconds;
    ++problems;
    near += found <= 1.25 * best;
    RC_ASSERT(found <= 2 * best);
  });
  EXPECT_TRUE(is_never_twice_as_slow);
  EXPECT_GE(near, 0.97 * problems) << "of " << problems;
}

TEST(PlanSearch, RematerializesOnlyWhereTheBudgetAsksForIt) {
  PlanProblem problem;
  problem.topology = {};
  problem.topology.inputs = {"x"};
  for (int node = 0; node < 8; ++node) problem.topology.nodes.push_back({"n" + std::to_string(node), {node}, false});
  problem.topology.differentiable.assign(9, true);
  NodeCost node;
  node.forward = node.input_gradient = node.weight_gradient = node.recompute = 1;
  node.backward = 2;
  node.tape_bytes = 100;
  node.output_bytes = 1;
  node.forward_peak_bytes = 101;
  node.bare_forward_bytes = 1;
  node.keeps_input = {true};
  problem.costs[8].kinds = {{.nodes = std::vector<NodeCost>(8, node), .input_bytes = {1}, .tied_bytes = {}}};
  problem.choices = {.schedules = {{NamedSchedule::one_f_one_b}}, .micro_batches = {8}, .segments = false};
  problem.budgets = {kMuch, kMuch};
  EXPECT_EQ(std::ranges::count(search_plan(problem).best->rematerialize, true), 0);
  problem.budgets = {600, 600};  // stage 0 holds two micro-batches of 400, stage 1 one
  const auto found = search_plan(problem);
  ASSERT_TRUE(found.best);
  const auto& marks = found.best->rematerialize;
  EXPECT_GT(std::count(marks.begin(), marks.begin() + found.best->partition.sizes[0], true), 0);
  EXPECT_EQ(std::count(marks.begin() + found.best->partition.sizes[0], marks.end(), true), 0);
}

RC_GTEST_PROP(PlanSearch, SegmentsNeverMakeItWorse, ()) {
  const int devices = pick(1, 4);
  PlanProblem problem = random_problem(pick(devices, 9), devices);
  problem.choices.segments = false;
  const PlanSearchResult whole = search_plan(problem);
  problem.choices.segments = true;
  const PlanSearchResult cut = search_plan(problem);
  if (whole.best && whole.is_exact) RC_ASSERT(cut.best && cut.best->seconds <= whole.best->seconds);
}

/// Eight equal nodes on two devices with room for everything: gpipe and 1f1b take equal time, and gpipe holds more.
PlanProblem crowded_problem(double most) {
  PlanProblem problem;
  problem.topology.inputs = {"x"};
  for (int node = 0; node < 8; ++node) problem.topology.nodes.push_back({"n" + std::to_string(node), {node}, false});
  problem.topology.differentiable.assign(9, true);
  NodeCost node;
  node.forward = 1;
  node.backward = node.input_gradient = 2;
  node.tape_bytes = 100;
  node.keeps_input = {false};
  problem.costs[8].kinds = {{.nodes = std::vector<NodeCost>(8, node), .input_bytes = {0}, .tied_bytes = {}, .crowding = {most, 600}}};
  problem.choices = {.schedules = {{NamedSchedule::gpipe}}, .micro_batches = {8}, .rematerialize = std::vector<bool>(8, false)};
  problem.budgets = {kMuch, kMuch};
  return problem;
}

TEST(PlanSearch, CountsThatActionsTakeLongerOnCrowdedDevices) {
  const double roomy = search_plan(crowded_problem(0)).best->seconds;
  PlanProblem problem = crowded_problem(0.1);
  EXPECT_NEAR(search_plan(problem).best->seconds, 1.1 * roomy, 1e-9) << "both devices hold 3200 bytes, more than twice 600";
  problem.choices.schedules.push_back({NamedSchedule::one_f_one_b});
  const auto found = search_plan(problem);
  EXPECT_EQ(name_of(found.best->family), "1f1b");
  EXPECT_GT(found.best->seconds, 1.01 * roomy) << "the first device holds 800 bytes";
  EXPECT_LT(found.best->seconds, 1.05 * roomy);
  EXPECT_GE(found.best->seconds, found.bound_seconds);
}

TEST(PlanSearch, RefusesProblemsWithoutCosts) {
  PlanProblem problem;
  problem.topology.inputs = {"x"};
  problem.topology.nodes = {{"a", {0}, false}};
  problem.choices = {.schedules = {{NamedSchedule::gpipe}}, .micro_batches = {2}};
  problem.budgets = {70};
  EXPECT_THROW(search_plan(problem), UsageError);
}

double slowest(const Partition& partition, const StageSeconds& seconds) {
  double worst = 0;
  for (int stage = 0; stage < partition.stage_count(); ++stage) {
    const auto taken = seconds(stage, partition.first_node(stage), partition.end_node(stage));
    worst = std::max(worst, taken.value_or(std::numeric_limits<double>::infinity()));
  }
  return worst;
}

double squares(const Partition& partition, const StageSeconds& seconds) {
  double sum = 0;
  for (int stage = 0; stage < partition.stage_count(); ++stage) {
    const double taken = *seconds(stage, partition.first_node(stage), partition.end_node(stage));
    sum += taken * taken;
  }
  return sum;
}

/// Stages of unequal speed, each with room for so many bytes.
void expect_the_best_cut() {
  const int nodes = pick(1, 11), stages = pick(1, nodes + 1);
  std::vector<double> work(nodes), bytes(nodes), speed(stages), room(stages);
  for (int node = 0; node < nodes; ++node) work[node] = pick(0, 30) / 7.0, bytes[node] = pick(1, 9);
  for (int stage = 0; stage < stages; ++stage) speed[stage] = pick(1, 4), room[stage] = pick(4, 60);
  const StageSeconds seconds = [&](int stage, int first, int end) -> std::optional<double> {
    double sum = 0, held = 0;
    for (int node = first; node < end; ++node) sum += work[node] / speed[stage], held += bytes[node];
    if (held > room[stage]) return std::nullopt;
    return sum;
  };
  double best = std::numeric_limits<double>::infinity();
  Partition empty;
  for_all_cuts(nodes, stages, empty, [&](const Partition& partition) { best = std::min(best, slowest(partition, seconds)); });
  const auto found = fastest_cut(nodes, stages, seconds);
  RC_ASSERT(found.has_value() == std::isfinite(best));
  if (!found) return;
  RC_ASSERT(slowest(*found, seconds) == best);
  const auto even = best_cut(nodes, stages, seconds, [](int, int, int) { return 0.0; });
  RC_ASSERT(even && slowest(*even, seconds) == best);
  for_all_cuts(nodes, stages, empty, [&](const Partition& partition) {
    if (slowest(partition, seconds) <= best) RC_ASSERT(squares(*even, seconds) <= squares(partition, seconds) * (1 + 1e-12));
  });
}

RC_GTEST_PROP(PlanCut, EqualsTheBestOfAllCutsOnTenThousandInstances, ()) {
  for (int instance = 0; instance < 100; ++instance) expect_the_best_cut();  // in each of RapidCheck's 100 runs
}

/// Times of no order at all, and nodes that cannot be a stage but can be part of one.
RC_GTEST_PROP(PlanCut, EqualsTheBestOfAllCutsWhereMoreNodesMayTakeLess, ()) {
  const int nodes = pick(1, 9), stages = pick(1, nodes + 1);
  std::map<std::tuple<int, int, int>, std::optional<double>> known;
  const StageSeconds seconds = [&](int stage, int first, int end) {
    const auto [place, is_new] = known.try_emplace({stage, first, end});
    if (is_new && pick(0, 5) > 0) place->second = pick(0, 40);
    return place->second;
  };
  double best = std::numeric_limits<double>::infinity();
  Partition empty;
  for_all_cuts(nodes, stages, empty, [&](const Partition& partition) { best = std::min(best, slowest(partition, seconds)); });
  const auto found = best_cut(nodes, stages, seconds, [](int, int, int) { return 0.0; });
  RC_ASSERT(found.has_value() == std::isfinite(best));
  if (found) RC_ASSERT(slowest(*found, seconds) == best);
}

}  // namespace
}  // namespace sluice::parallel
