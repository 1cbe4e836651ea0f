#include "parallel/plan/options.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/suggestion.h"
#include "parallel/plan/bound.h"
#include "parallel/plan/check.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/plan/replicas.h"
#include "parallel/run/stage.h"

namespace sluice::parallel {

namespace {

std::vector<bool> marks_of(const layers::Graph& graph, const RematNodes& wanted) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node.name);
  std::vector<bool> marks(names.size(), false);
  for (const auto& name : wanted.names) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) throw UsageError(join("PlanOptions::remat: needs names of nodes, got '", name, "'", suggestion(name, names)));
    marks[found - names.begin()] = true;
  }
  return marks;
}

/// By node; nothing when it is open.
std::optional<std::vector<bool>> fixed_rematerialization(const layers::Graph& graph, const RematChoice& choice) {
  if (const auto* nodes = choice.given()) return marks_of(graph, *nodes);
  if (const auto* rule = choice.rule()) return std::vector<bool>(graph.nodes().size(), *rule == Remat::full);
  return std::nullopt;
}

Partition partition_by_parameters(const layers::Graph& graph, int stages) {
  std::vector<double> counts;
  for (size_t node = 0; node < graph.nodes().size(); ++node)
    counts.push_back(static_cast<double>(graph.parameter_count(static_cast<int>(node))));
  return partition_balanced(counts, stages);
}

Partition given_partition(const Partition& given, int nodes) { return partition_given(given.sizes, nodes, "PlanOptions::partition"); }

/// The cut that is fixed for a number of stages; nothing when it is open.
std::optional<Partition> fixed_partition(const layers::Graph& graph, int stages, const PartitionChoice& choice) {
  const int nodes = static_cast<int>(graph.nodes().size());
  if (const auto* given = choice.given()) {
    require(given->stage_count() == stages, "PlanOptions::partition: needs one number a stage, got ", given->stage_count(), " numbers for ",
            stages, " stages");
    return given_partition(*given, nodes);
  }
  if (const auto* rule = choice.rule())
    return *rule == PartitionRule::uniform ? partition_uniform(nodes, stages) : partition_by_parameters(graph, stages);
  if (stages == 1 || stages == nodes) return partition_uniform(nodes, stages);
  return std::nullopt;
}

/// Whether one device may have so many stages in an open order. None is faster for it, so only a given partition asks for them.
bool may_have_stages(const ScheduleChoice& choice, int stages) {
  const int* most = choice.virtual_stages().given();
  return !choice.named() && !choice.fixed() && stages > 1 && stages <= (most ? *most : kMostVirtualStages);
}

/// Those of as many stages as a given partition, where there are any.
std::vector<ScheduleFamily> with_stages_of(std::vector<ScheduleFamily> families, const PlanOptions& options, int devices) {
  const auto* given = options.partition.given();
  if (given && devices == 1 && may_have_stages(options.schedule, given->stage_count()))
    return {{NamedSchedule::interleaved, given->stage_count()}};
  const auto is_other = [&](const ScheduleFamily& family) { return stages_of(family, devices) != given->stage_count(); };
  if (given && !std::ranges::all_of(families, is_other)) std::erase_if(families, is_other);
  return families;
}

/// The numbers of micro-batches that are worth trying: powers of two, multiples of the devices, one a sample.
std::vector<int> open_micro_batches(int64_t batch, int devices) {
  constexpr int64_t kMost = 4096;
  std::set<int> numbers{static_cast<int>(std::min(batch, kMost))};
  for (int64_t number = 1; number <= std::min(batch, kMost); number *= 2) numbers.insert(static_cast<int>(number));
  for (int64_t times = 1; times <= 8 && times * devices <= batch; times *= 2) numbers.insert(static_cast<int>(times * devices));
  return {numbers.begin(), numbers.end()};
}

/// Those that may be chosen.
std::vector<int> numbers_of_micro_batches(const PlanOptions& options, int devices) {
  const Schedule* fixed = options.schedule.fixed();
  const int* number = options.micro_batches.given();
  if (!number) return fixed ? std::vector{fixed->micro_batches} : open_micro_batches(options.batch, devices);
  require(*number >= 1, "PlanOptions::micro_batches: needs at least one, got ", *number, "; kOpen leaves it open");
  if (fixed)
    require(*number == fixed->micro_batches, "PlanOptions::micro_batches: needs ", fixed->micro_batches, ", which schedule ", fixed->name,
            " is for, got ", *number, "; set it to kOpen, or give another schedule");
  return {*number};
}

/// Leaves those open numbers out that are too many for every family, and refuses a given one.
std::vector<int> few_enough(std::vector<int> numbers, const std::vector<ScheduleFamily>& families, int devices, int nodes) {
  int stages = nodes;  // families of more stages are refused elsewhere
  for (const auto& family : families) stages = std::min(stages, stages_of(family, devices));
  if (numbers.size() == 1) require_few_enough(numbers[0], stages, "PlanOptions::micro_batches");
  std::erase_if(numbers, [&](int number) { return int64_t{number} * stages > kMostStageRuns; });
  return numbers;
}

void check(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options) {
  const int stages = static_cast<int>(devices.size()), nodes = static_cast<int>(graph.nodes().size());
  require_devices(devices, options.precision, "Plan::devices");
  require(stages <= nodes, "Plan::devices: needs at most one stage a node, got ", stages, " devices for ", nodes,
          " nodes; use fewer devices or a deeper model");
  require(options.batch >= 1, "PlanOptions::batch: needs at least one sample, got ", options.batch);
  require(options.memory >= 1, "PlanOptions::memory: needs at least one byte a device, got ", options.memory);
  require(!std::isnan(options.search_seconds) && options.search_seconds >= 0, "PlanOptions::search_seconds: needs seconds >= 0, got ",
          options.search_seconds, "; 0 sets no limit");
}

}  // namespace

StepBound step_bound(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int64_t batch,
                     int replicas, SearchWatch& watch) {
  check(graph, devices, options);
  const int count = static_cast<int>(devices.size());
  const Topology topology = topology_of(graph);
  StepBound least;
  for (const int number : numbers_of_micro_batches(options, count)) {
    const int64_t smallest = batch / std::min(int64_t{number} * replicas, batch), largest = (options.batch + number - 1) / number;
    ModelCosts costs{{}, device_kinds(devices)};
    for (const auto& device : one_of_each_kind(devices)) {
      costs.kinds.emplace_back().nodes.resize(graph.nodes().size());
      set_times(costs.kinds.back(), node_times(graph, options, device, options.times ? largest : smallest, number, watch));
    }
    const double seconds = bound_seconds(topology, costs, count, number);
    if (least.micro_batches == 0 || seconds < least.seconds) least = {seconds, number, std::move(costs)};
  }
  return least;
}

Plan plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options) {
  require_nodes(graph);
  require(options.fold_blocks >= 0, "PlanOptions::fold_blocks: needs one or more, or 0 for one a replica, got ", options.fold_blocks);
  require(options.fold_blocks <= std::max<int64_t>(1, options.batch), "PlanOptions::fold_blocks: needs at most the ", options.batch,
          " samples of the mini-batch, got ", options.fold_blocks, "; more blocks would all be empty");
  const int* replicas = options.replicas.given();
  if (!replicas) return plan_of_open_replicas(graph, devices, options);
  require(*replicas >= 1, "PlanOptions::replicas: needs at least one, got ", *replicas, "; kOpen leaves it open");
  if (*replicas > 1) return plan_of_replicas(graph, devices, options, *replicas);
  return plan_of_pipeline(graph, std::move(devices), options);
}

Plan plan_of_pipeline(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options, const ReplicaShare& share) {
  check(graph, devices, options);
  const int count = static_cast<int>(devices.size()), nodes = static_cast<int>(graph.nodes().size());
  if (options.memory != kUnlimited)
    for (auto& device : devices) device->set_budget_bytes(options.memory);
  const auto families = with_stages_of(families_of(options.schedule, count, nodes), options, count);
  const auto numbers = few_enough(numbers_of_micro_batches(options, count), families, count, nodes);
  for (const int number : numbers) micro_batch_bounds(options.batch, number);

  PlanChoices choices{.schedules = families, .micro_batches = numbers, .rematerialize = fixed_rematerialization(graph, options.remat)};
  for (const auto& family : choices.schedules) {
    const int stages = stages_of(family, count);
    require(stages <= nodes, "ScheduleChoice::virtual_stages: needs at most one stage a node, got ", stages, " stages for ", nodes,
            " nodes; use fewer devices or virtual stages, or a deeper model");
    if (auto partition = fixed_partition(graph, stages, options.partition)) choices.partitions.emplace(stages, *partition);
  }
  Plan plan = choose_plan(graph, std::move(devices), options, std::move(choices), share);
  plan.replication.fold_blocks = std::max(1, options.fold_blocks);
  return plan;
}

}  // namespace sluice::parallel
