#include "parallel/program/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace sluice::parallel {

namespace {

void require_stages(int nodes, int stages) {
  require(stages >= 1 && stages <= nodes, "partition: needs 1 <= stages <= nodes, got ", stages, " stages for ", nodes,
          " nodes; use at most one device a node");
}

/// best[k][i]: the smallest bottleneck of the nodes from i on in k stages. Sums run from the left, as in `bottleneck`,
/// so that equal cuts compare equal to the last bit.
std::vector<std::vector<double>> suffix_bottlenecks(const std::vector<double>& costs, int stages) {
  const int nodes = static_cast<int>(costs.size());
  std::vector best(stages + 1, std::vector(nodes + 1, kInfinity));
  best[0][nodes] = 0;
  for (int k = 1; k <= stages; ++k) {
    for (int i = 0; i < nodes; ++i) {
      double first = 0;
      for (int end = i + 1; end <= nodes && first < best[k][i]; ++end) {
        first += costs[end - 1];
        best[k][i] = std::min(best[k][i], std::max(first, best[k - 1][end]));
      }
    }
  }
  return best;
}

}  // namespace

int Partition::node_count() const { return std::accumulate(sizes.begin(), sizes.end(), 0); }

int Partition::first_node(int stage) const { return std::accumulate(sizes.begin(), sizes.begin() + stage, 0); }

int Partition::end_node(int stage) const { return first_node(stage) + sizes[stage]; }

int Partition::stage_of(int node) const {
  int stage = 0;
  while (node >= sizes[stage]) node -= sizes[stage++];
  return stage;
}

Partition partition_uniform(int nodes, int stages) {
  require_stages(nodes, stages);
  Partition partition{std::vector(stages, nodes / stages)};
  for (int stage = 0; stage < nodes % stages; ++stage) ++partition.sizes[stage];
  return partition;
}

Partition partition_balanced(const std::vector<double>& costs, int stages) {
  const int nodes = static_cast<int>(costs.size());
  require_stages(nodes, stages);
  for (int node = 0; node < nodes; ++node)
    require(std::isfinite(costs[node]) && costs[node] >= 0, "partition: the cost of node ", node, " must be finite and >= 0, got ",
            costs[node], "; profile the model again");

  const auto best = suffix_bottlenecks(costs, stages);
  const double limit = best[stages][0];
  Partition partition;
  for (int stage = 0, first = 0; stage < stages; ++stage) {  // the shortest stage from which the limit can still be kept
    int size = 1;
    while (best[stages - stage - 1][first + size] > limit) ++size;
    partition.sizes.push_back(size);
    first += size;
  }
  return partition;
}

Partition partition_given(const std::vector<int>& sizes, int nodes, std::string_view name) {
  require(!sizes.empty(), name, ": needs at least one stage, got an empty list; give the number of nodes of each stage");
  for (std::size_t stage = 0; stage < sizes.size(); ++stage)
    require(sizes[stage] >= 1, name, ": every stage needs at least one node, got ", sizes[stage], " for stage ", stage,
            "; remove the stage or give it a node");
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  require(sum == nodes, name, ": the sizes must sum to the model's ", nodes, " nodes, got the sum ", sum, "; change the sizes by ",
          nodes - sum, " in all");
  return {sizes};
}

double bottleneck(const Partition& partition, const std::vector<double>& costs) {
  double slowest = 0;
  for (int stage = 0; stage < partition.stage_count(); ++stage)
    slowest =
        std::max(slowest, std::accumulate(costs.begin() + partition.first_node(stage), costs.begin() + partition.end_node(stage), 0.0));
  return slowest;
}

}  // namespace sluice::parallel
