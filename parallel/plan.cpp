#include "parallel/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/suggestion.h"
#include "parallel/plan/check.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/plan_programs.h"
#include "parallel/program/schedule_check.h"
#include "parallel/run/stage.h"
#include "parallel/schedule/named.h"

namespace sluice::parallel {

namespace {

std::vector<bool> rematerialized_nodes(const layers::Graph& graph, const PlanOptions& options) {
  const size_t nodes = graph.nodes().size();
  if (options.remat == "none") return std::vector<bool>(nodes, false);
  if (options.remat == "full") return std::vector<bool>(nodes, true);
  require(options.remat == "list", "PlanOptions::remat: unknown '", options.remat,
          "'; known are none, full, auto and list, with PlanOptions::remat_nodes");
  std::vector<bool> result(nodes, false);
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node.name);
  std::vector<std::string> known{"none", "full", "auto"};
  known.insert(known.end(), names.begin(), names.end());
  for (const auto& name : options.remat_nodes) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      throw UsageError(
          join("PlanOptions::remat_nodes: needs none, full, auto or names of nodes, got '", name, "'", suggestion(name, known)));
    result[found - names.begin()] = true;
  }
  return result;
}

Partition partition_by_parameters(const layers::Graph& graph, int stages) {
  std::vector<double> counts;
  for (size_t node = 0; node < graph.nodes().size(); ++node)
    counts.push_back(static_cast<double>(graph.parameter_count(static_cast<int>(node))));
  return partition_balanced(counts, stages);
}

/// The cut that the options fix for a number of stages; nothing when it is open.
std::optional<Partition> fixed_partition(const layers::Graph& graph, int stages, const PlanOptions& options) {
  const int nodes = static_cast<int>(graph.nodes().size());
  if (options.partition == "list") {
    require(static_cast<int>(options.sizes.size()) == stages, "PlanOptions::sizes: needs one number a stage, got ", options.sizes.size(),
            " numbers for ", stages, " stages");
    return partition_given(options.sizes, nodes);
  }
  if (options.partition == "uniform") return partition_uniform(nodes, stages);
  if (options.partition == "parameters") return partition_by_parameters(graph, stages);
  require(options.partition == "auto", "PlanOptions::partition: unknown '", options.partition, "'",
          suggestion(options.partition, {"auto", "uniform", "parameters", "list"}));
  if (stages == 1 || stages == nodes) return partition_uniform(nodes, stages);
  return std::nullopt;
}

/// The schedules that the options leave open.
std::vector<ScheduleFamily> families_of(const PlanOptions& options, int devices, int nodes) {
  if (options.orders) {
    require(options.orders->device_count() == devices, "PlanOptions::orders: the schedule is for ", options.orders->device_count(),
            " devices, the plan has ", devices, "; give as many devices as the schedule has");
    return {{options.orders->name, 1, "", options.orders}};
  }
  if (options.schedule == "auto") {
    auto families = all_schedule_families(devices, nodes);
    if (options.virtual_stages > 0) {
      const int wanted = options.virtual_stages;
      std::erase_if(families, [&](const ScheduleFamily& family) { return stages_of(family, devices) > wanted * devices; });
    }
    return families;
  }
  if (options.virtual_stages == 0 && options.schedule == "interleaved") {
    std::vector<ScheduleFamily> families;
    for (int stages = 1; stages <= kMostVirtualStages && stages * devices <= nodes; ++stages) families.push_back({"interleaved", stages});
    return families;
  }
  return {{options.schedule, std::max(1, options.virtual_stages)}};
}

/// The numbers of micro-batches that are worth trying: powers of two, multiples of the devices, one a sample.
std::vector<int> open_micro_batches(int64_t batch, int devices) {
  constexpr int64_t kMost = 4096;
  std::set<int> numbers{static_cast<int>(std::min(batch, kMost))};
  for (int64_t number = 1; number <= std::min(batch, kMost); number *= 2) numbers.insert(static_cast<int>(number));
  for (int64_t times = 1; times <= 8 && times * devices <= batch; times *= 2) numbers.insert(static_cast<int>(times * devices));
  return {numbers.begin(), numbers.end()};
}

void check(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options) {
  const int stages = static_cast<int>(devices.size()), nodes = static_cast<int>(graph.nodes().size());
  require_devices(devices, options.precision, "Plan::devices");
  require(stages <= nodes, "Plan::devices: needs at most one stage a node, got ", stages, " devices for ", nodes,
          " nodes; use fewer devices or a deeper model");
  require(options.batch >= 1, "PlanOptions::batch: needs at least one sample, got ", options.batch);
  require(options.micro_batches >= 0, "PlanOptions::micro_batches: needs a number >= 0, got ", options.micro_batches, "; 0 leaves it open");
  require(options.virtual_stages >= 0, "PlanOptions::virtual_stages: needs a number >= 0, got ", options.virtual_stages,
          "; 0 leaves it open");
  require(options.memory >= 1, "PlanOptions::memory: needs at least one byte a device, got ", options.memory);
  require(!std::isnan(options.search_seconds) && options.search_seconds >= 0, "PlanOptions::search_seconds: needs seconds >= 0, got ",
          options.search_seconds, "; 0 sets no limit");
  if (options.orders) require_complete(*options.orders, "PlanOptions::orders");
}

}  // namespace

namespace {

/// The placement of whole stages.
std::vector<int> placement_of(const Plan& plan) {
  if (plan.orders) return plan.orders->device_of_stage;
  const int devices = static_cast<int>(plan.devices.size());
  const int stages = plan.segments.empty() ? plan.partition.stage_count() : static_cast<int>(plan.segments.size());
  return stage_placement(plan.schedule, devices, std::max(1, stages / devices));
}

Schedule stage_schedule(const Plan& plan, int micro_batches) {
  if (!plan.orders) return make_schedule(plan.schedule, placement_of(plan), micro_batches);
  if (plan.orders->micro_batches == micro_batches) return *plan.orders;
  require(plan.schedule == "auto", "Plan::orders: '", plan.schedule, "' is for ", plan.orders->micro_batches,
          " micro-batches, got a mini-batch of ", micro_batches, "; set PlanOptions::micro_batches, or use a schedule by name");
  return search_again(plan, micro_batches).schedule;
}

}  // namespace

std::vector<int> device_kinds(const std::vector<DevicePtr>& devices) {
  const auto is_alike = [](const Device& a, const Device& b) {
    const Device::Options &x = a.options(), &y = b.options();
    return a.kind() == b.kind() && a.backend() == b.backend() && x.speed == y.speed && x.threads == y.threads && x.model == y.model &&
           x.allow_tf32 == y.allow_tf32;
  };
  std::vector<int> kinds;
  std::vector<const Device*> first;  // by kind
  for (const auto& device : devices) {
    const auto known = std::ranges::find_if(first, [&](const Device* other) { return is_alike(*device, *other); });
    kinds.push_back(static_cast<int>(known - first.begin()));
    if (known == first.end()) first.push_back(device.get());
  }
  return kinds;
}

std::vector<int> stage_sizes(const Plan& plan) {
  require_valid(plan);
  if (plan.segments.empty()) return plan.partition.sizes;
  std::vector<int> sizes;
  auto part = plan.partition.sizes.begin();
  for (const int count : plan.segments) {
    sizes.push_back(std::accumulate(part, part + count, 0));
    part += count;
  }
  return sizes;
}

std::vector<int> device_of_stage(const Plan& plan) {
  require_valid(plan);
  const auto placement = placement_of(plan);
  if (plan.segments.empty()) return placement;
  std::vector<int> devices;
  for (size_t stage = 0; stage < placement.size(); ++stage) devices.insert(devices.end(), plan.segments[stage], placement[stage]);
  return devices;
}

Schedule schedule_of(const Plan& plan, int micro_batches) {
  require_valid(plan);
  Schedule schedule = stage_schedule(plan, micro_batches);
  return plan.segments.empty() ? schedule : in_segments(schedule, plan.segments);
}

Plan plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options) {
  check(graph, devices, options);
  const int count = static_cast<int>(devices.size()), nodes = static_cast<int>(graph.nodes().size());
  if (options.memory != kUnlimited)
    for (auto& device : devices) device->set_budget_bytes(options.memory);
  std::vector<int> numbers{options.orders ? options.orders->micro_batches : options.micro_batches};
  if (numbers[0] == 0) numbers = open_micro_batches(options.batch, count);
  for (const int number : numbers) micro_batch_bounds(options.batch, number);

  PlanChoices choices{.schedules = families_of(options, count, nodes), .micro_batches = numbers, .partitions = {}, .rematerialize = {}};
  if (options.remat != "auto") choices.rematerialize = rematerialized_nodes(graph, options);
  for (const auto& family : choices.schedules) {
    const int stages = stages_of(family, count);
    require(stages <= nodes, "PlanOptions::virtual_stages: needs at most one stage a node, got ", stages, " stages for ", nodes,
            " nodes; use fewer devices or virtual stages, or a deeper model");
    if (auto partition = fixed_partition(graph, stages, options)) choices.partitions.emplace(stages, *partition);
  }
  return choose_plan(graph, std::move(devices), options, std::move(choices));
}

}  // namespace sluice::parallel
