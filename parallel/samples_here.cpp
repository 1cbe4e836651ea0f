#include "parallel/samples_here.h"

#include <algorithm>
#include <ranges>
#include <vector>

#include "parallel/run/stage.h"

namespace sluice::parallel {

namespace {

/// In their order: those with a device in this rank.
std::vector<int> replicas_here(const Plan& plan, const DeviceRanks& ranks) {
  const int replicas = plan.replication.replicas, each = devices_of_replica(plan);
  std::vector<int> here;
  for (int replica = 0; replica < replicas; ++replica) {
    const auto is_here = [&](int device) {
      return ranks.is_here(device_of_replica(plan.replica_devices, device, replica, replicas, each));
    };
    if (std::ranges::any_of(std::views::iota(0, each), is_here)) here.push_back(replica);
  }
  return here;
}

std::vector<std::string> inputs_of_loss(const layers::Graph& graph) {
  std::vector<std::string> names;
  for (const int value : graph.nodes()[static_cast<size_t>(graph.loss_node())].inputs)
    if (graph.node_of(value) < 0) names.push_back(graph.inputs()[static_cast<size_t>(value)].name);
  return names;
}

}  // namespace

SamplesHere samples_here(const layers::Graph& graph, const Plan& plan, const DeviceRanks& ranks) {
  const std::vector<int> here = replicas_here(plan, ranks);
  return [whole = inputs_of_loss(graph), micro_batches = plan.micro_batches, replicas = plan.replication.replicas, first = here.front(),
          last = here.back()](const std::string& input, int64_t samples) -> std::pair<int64_t, int64_t> {
    if (std::ranges::count(whole, input) > 0) return {0, samples};
    const int parts = static_cast<int>(std::min<int64_t>(micro_batches, samples));
    const auto bounds = micro_batch_bounds(samples, parts);
    return {bounds[part_of(parts, first, replicas).first], bounds[part_of(parts, last, replicas).end]};
  };
}

}  // namespace sluice::parallel
