#pragma once
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "parallel/program/program.h"
#include "parallel/schedule/named.h"
#include "parallel/schedule/search.h"
#include "tests/schedule/pick.h"

/// Models and plans for the tests of this folder.
namespace sluice::parallel {

/// Values: 0 x, 1 target, 2 a, 3 b, 4 c, 5 d, 6 loss. 'a' skips to 'c' and 'd', 'target' has no gradient, 'a' and 'd' share a parameter,
/// 'd' has running statistics.
inline Topology skip_topology() {
  return {.inputs = {"x", "target"},
          .nodes = {{"a", {0}}, {"b", {2}}, {"c", {2, 3}}, {"d", {2, 4}, true}, {"loss", {5, 1}}},
          .differentiable = {false, false, true, true, true, true, true},
          .tied = {{"embedding", {0, 3}}}};
}

/// A chain of `nodes` nodes behind one input.
inline Topology chain_topology(int nodes) {
  Topology topology{.inputs = {"x"}, .nodes = {}, .differentiable = {false}, .tied = {}};
  for (int node = 0; node < nodes; ++node) {
    topology.nodes.push_back({join("n", node), {node}});
    topology.differentiable.push_back(true);
  }
  return topology;
}

struct Plan {
  Topology topology;
  Partition partition;
  Schedule schedule;
  std::vector<bool> rematerialize;
  std::vector<int64_t> value_bytes{};  ///< by value, one micro-batch; may be empty
  Replication replication{};

  /// With the bytes of what is on the wire, as if the program were counted.
  Program lowered() const {
    Program program = lower(topology, partition, schedule, rematerialize, {}, replication);
    for (auto& actions : program.devices)
      for (Action& action : actions)
        if (!value_bytes.empty() && action.transfer.of_micro_batch()) action.bytes = value_bytes[action.transfer.value];
    return program;
  }
};

using Lines = std::vector<std::string>;

/// The actions of one device in words.
inline Lines lines(const Program& program, const Topology& topology, int device) {
  Lines out;
  for (const Action& action : program.devices[device]) out.push_back(describe(action, topology));
  return out;
}

/// A stage a device in the order of a named schedule, or forwards alone: "forward-only".
inline Schedule example_schedule(std::string_view name, int stages, int micro_batches) {
  if (name != "forward-only") return make_schedule(schedule_named(name), stages, micro_batches);
  return forward_schedule(stage_placement(NamedSchedule::gpipe, stages), micro_batches);
}

/// Of skip_topology().
inline Plan skip_plan(std::vector<int> sizes, std::string_view schedule, int micro_batches,
                      std::vector<bool> rematerialize = std::vector<bool>(5)) {
  const int stages = static_cast<int>(sizes.size());
  return {skip_topology(), {std::move(sizes)}, example_schedule(schedule, stages, micro_batches), std::move(rematerialize)};
}

inline std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  out << plan.schedule.name << ", M " << plan.schedule.micro_batches << ", " << plan.replication.replicas
      << (plan.replication.shards_optimizer ? " replicas, sizes" : " whole replicas, sizes");
  for (int size : plan.partition.sizes) out << ' ' << size;
  for (int node = 0; node < plan.topology.node_count(); ++node) {
    out << "; " << plan.topology.value_of(node) << (plan.topology.differentiable[plan.topology.value_of(node)] ? "" : " constant")
        << (plan.rematerialize[node] ? " rematerialized" : "") << " of";
    for (int value : plan.topology.nodes[node].inputs) out << ' ' << value;
  }
  return out;
}

/// All of one micro-batch after the other in one order of the whole group, so that any placement is right; `split` makes I and W of B.
inline Schedule sequential_schedule(std::vector<int> device_of_stage, int devices, int micro_batches, bool split) {
  Schedule schedule{"sequential", micro_batches, std::move(device_of_stage), std::vector<std::vector<ComputeAction>>(devices)};
  const auto add = [&](Compute kind, int stage, int m) { schedule.devices[schedule.device_of_stage[stage]].push_back({kind, stage, m}); };
  const int stages = schedule.stage_count();
  for (int m = 0; m < micro_batches; ++m)
    for (int stage = 0; stage < stages; ++stage) add(Compute::forward, stage, m);
  for (int m = 0; m < micro_batches; ++m)
    for (int stage = stages - 1; stage >= 0; --stage) add(split ? Compute::input_gradient : Compute::backward, stage, m);
  for (int m = 0; split && m < micro_batches; ++m)
    for (int stage = 0; stage < stages; ++stage) add(Compute::weight_gradient, stage, m);
  return schedule;
}

inline Topology random_topology() {
  Topology topology{.inputs = {"x", "target"}, .nodes = {}, .differentiable = {false, false}, .tied = {}};
  const int nodes = pick(1, 11);
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> inputs(pick(1, 4));
    for (int& value : inputs) value = pick(0, topology.value_of(node));
    bool differentiable = pick(0, 4) > 0;
    for (int value : inputs) differentiable = differentiable || topology.differentiable[value];
    topology.nodes.push_back({join("n", node), inputs, pick(0, 3) == 0});
    topology.differentiable.push_back(differentiable);
  }
  for (int tied = pick(0, 3); tied-- > 0;) {
    std::set<int> uses;
    for (int use = pick(1, 5); use-- > 0;) uses.insert(pick(0, nodes));
    topology.tied.push_back({"tied" + std::to_string(tied), {uses.begin(), uses.end()}});
  }
  return topology;
}

inline Partition random_partition(int nodes) {
  Partition partition{{1}};
  for (int node = 1; node < nodes; ++node) {
    if (pick(0, 2) == 0)
      ++partition.sizes.back();
    else
      partition.sizes.push_back(1);
  }
  return partition;
}

/// A chain of equal stages, B = I + W; a micro-batch keeps one byte on each until its weight gradients.
inline StageCosts equal_stage_costs(int stages, double forward, double input_gradient, double weight_gradient) {
  StageCosts costs;
  costs.forward.assign(stages, forward);
  costs.backward.assign(stages, input_gradient + weight_gradient);
  costs.input_gradient.assign(stages, input_gradient);
  costs.weight_gradient.assign(stages, weight_gradient);
  costs.kept.assign(stages, 1);
  costs.kept_for_weights.assign(stages, 1);
  return costs;
}

inline std::vector<double> random_costs(int stages) {
  std::vector<double> costs(stages);
  for (double& cost : costs) cost = pick(0, 20) / 8.0;
  return costs;
}

inline StageCosts random_stage_costs(int stages) {
  StageCosts costs;
  for (auto* list : {&costs.forward, &costs.backward, &costs.input_gradient, &costs.weight_gradient}) *list = random_costs(stages);
  for (auto* list : {&costs.recompute, &costs.transfer, &costs.kept, &costs.kept_for_weights})
    if (pick(0, 2) == 0) *list = random_costs(stages);
  costs.links.all = {pick(0, 3) / 8.0, 1};
  return costs;
}

/// A placement in which every device has a stage.
inline std::vector<int> random_placement(int stages) {
  const int devices = pick(1, stages + 1);
  std::vector<int> device_of_stage(stages);
  for (int stage = 0; stage < stages; ++stage) device_of_stage[stage] = stage < devices ? stage : pick(0, devices);
  for (int stage = stages - 1; stage > 0; --stage) std::swap(device_of_stage[stage], device_of_stage[pick(0, stage + 1)]);
  return device_of_stage;
}

/// Named, searched and sequential ones, over as many devices as the number of stages allows.
inline Schedule random_schedule(int stages) {
  const int micro_batches = pick(1, 10);
  const std::vector plain = {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1};
  const int kind = pick(0, 8);
  if (kind < 3) return make_schedule(plain[kind], stages, micro_batches);
  if (kind == 3 && stages % 2 == 0) return make_schedule(NamedSchedule::zb_v, stages / 2, micro_batches, 2);
  int devices = pick(1, stages + 1);
  while (stages % devices != 0) --devices;
  if (kind <= 4) return make_schedule(NamedSchedule::interleaved, devices, micro_batches, stages / devices);
  if (kind == 5) return forward_schedule(random_placement(stages), micro_batches);
  if (kind == 6) return search_schedule(random_stage_costs(stages), random_placement(stages), micro_batches).schedule;
  std::vector<int> device_of_stage(stages);
  for (int& device : device_of_stage) device = pick(0, stages);
  return sequential_schedule(device_of_stage, stages, micro_batches, pick(0, 2) == 0);
}

/// A stage a device, every replica in an order of its own.
inline Schedule random_replicas(int stages, int replicas, int micro_batches) {
  std::vector<Schedule> schedules;
  for (int replica = 0; replica < replicas; ++replica) {
    const int own = part_of(micro_batches, replica, replicas).count();
    const std::vector plain = {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1};
    std::vector<int> in_order(stages);
    for (int stage = 0; stage < stages; ++stage) in_order[stage] = stage;
    const int kind = pick(0, 5);
    schedules.push_back(kind < 3 ? make_schedule(plain[kind], stages, own) : sequential_schedule(in_order, stages, own, kind == 3));
  }
  return replicated(schedules, micro_batches);
}

/// A plan that `lower` takes: skips, several consumers, constants, tied parameters, any partition, schedule and placement.
inline Plan random_plan() {
  Plan plan{random_topology(), {}, {}, {}, {}};
  const int nodes = plan.topology.node_count();
  plan.partition = random_partition(nodes);
  plan.schedule = random_schedule(plan.partition.stage_count());
  for (int node = 0; node < nodes; ++node) plan.rematerialize.push_back(pick(0, 2) == 0);
  for (int value = 0; value < plan.topology.value_count(); ++value) plan.value_bytes.push_back(8 * pick(0, 9));
  return plan;
}

/// The same for two to four replicas.
inline Plan random_replicated_plan() {
  Plan plan = random_plan();
  plan.replication = {pick(2, 5), 0, pick(0, 2) == 0};
  plan.replication.fold_blocks = plan.replication.replicas << pick(0, 3);
  plan.schedule = random_replicas(plan.partition.stage_count(), plan.replication.replicas, plan.replication.replicas + pick(0, 5));
  return plan;
}

}  // namespace sluice::parallel
