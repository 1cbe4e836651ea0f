#include "parallel/plan/bound.h"

#include <algorithm>
#include <limits>

namespace sluice::parallel {

namespace {

/// Of one micro-batch: a backward in one piece or in two, whichever is less.
double least_work(const NodeCost& node) { return node.forward + std::min(node.backward, node.input_gradient + node.weight_gradient); }

template <class Part>
double least_of_kinds(const ModelCosts& costs, int node, Part part) {
  double least = std::numeric_limits<double>::infinity();
  for (const ModelCost& kind : costs.kinds) least = std::min(least, part(kind.nodes[node]));
  return least;
}

double total_work(const ModelCost& model) {
  double work = 0;
  for (const NodeCost& node : model.nodes) work += least_work(node);
  return work;
}

/// For weights w of the devices, the slowest of them takes at least sum over nodes of min over devices of w * work, divided by the sum of
/// w: the dual of sharing nodes out in fractions.
double shared_work(const ModelCosts& costs, int nodes, int devices, const std::vector<double>& weight_of_kind) {
  double work = 0, weights = 0;
  for (int node = 0; node < nodes; ++node) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t kind = 0; kind < costs.kinds.size(); ++kind)
      least = std::min(least, weight_of_kind[kind] * least_work(costs.kinds[kind].nodes[node]));
    work += least;
  }
  for (int device = 0; device < devices; ++device)
    weights += weight_of_kind[costs.kind_of_device.empty() ? 0 : costs.kind_of_device[device]];
  return work / weights;
}

/// With equal weights, and with those that suit devices whose speeds differ by a factor.
double shared_work(const ModelCosts& costs, int nodes, int devices) {
  std::vector<double> equal(costs.kinds.size(), 1.0), by_speed;
  for (const ModelCost& kind : costs.kinds) by_speed.push_back(1 / std::max(total_work(kind), std::numeric_limits<double>::min()));
  return std::max(shared_work(costs, nodes, devices, equal), shared_work(costs, nodes, devices, by_speed));
}

/// A node's forward comes after those that it reads, its backward after its forward and after the backwards of those that read it.
double longest_way(const Topology& topology, const ModelCosts& costs) {
  const int nodes = topology.node_count();
  double longest = 0;
  std::vector<double> forward_end(nodes, 0.0), backward_start(nodes, 0.0);
  for (int node = 0; node < nodes; ++node) {
    for (const int value : topology.nodes[node].inputs)
      if (const int maker = topology.node_of(value); maker >= 0) forward_end[node] = std::max(forward_end[node], forward_end[maker]);
    forward_end[node] += least_of_kinds(costs, node, [](const NodeCost& cost) { return cost.forward; });
    longest = std::max(longest, forward_end[node]);
  }
  for (int node = nodes - 1; node >= 0; --node) {
    if (!topology.has_gradient(node)) continue;
    const double end = std::max(backward_start[node], forward_end[node]) +
                       least_of_kinds(costs, node, [](const NodeCost& cost) { return std::min(cost.backward, cost.input_gradient); });
    longest = std::max(longest, end);
    for (const int value : topology.nodes[node].inputs)
      if (const int maker = topology.node_of(value); maker >= 0 && topology.contributes(node, value))
        backward_start[maker] = std::max(backward_start[maker], end);
  }
  return longest;
}

}  // namespace

double bound_seconds(const Topology& topology, const ModelCosts& costs, int devices, int micro_batches) {
  const int nodes = topology.node_count();
  double largest = 0;
  for (int node = 0; node < nodes; ++node) largest = std::max(largest, least_of_kinds(costs, node, least_work));
  return std::max({micro_batches * shared_work(costs, nodes, devices), micro_batches * largest, longest_way(topology, costs)});
}

}  // namespace sluice::parallel
