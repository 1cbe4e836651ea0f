#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::parallel {

/// The seconds of what cannot be: a stage that does not fit, a cut that is not found.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A cut of the node sequence into contiguous stages: stage s runs `sizes[s]` nodes, none of them zero.
struct Partition {
  std::vector<int> sizes;

  int stage_count() const { return static_cast<int>(sizes.size()); }
  int node_count() const;
  int first_node(int stage) const;  ///< index of the stage's first node
  int end_node(int stage) const;    ///< one past the stage's last node
  int stage_of(int node) const;
  bool operator==(const Partition&) const = default;
};

/// Sizes that differ by at most one; the longer stages come first.
/// Errors  UsageError when stages < 1 or stages > nodes.
Partition partition_uniform(int nodes, int stages);

/// The exact minimum over contiguous cuts of the slowest stage's summed cost (dynamic programming, O(stages * nodes^2)).
/// Ties are broken towards the lexicographically smallest list of sizes, so that the result is one.
/// Units   any, the same for all nodes; costs >= 0 and finite.
/// Errors  UsageError as above, and for a negative or non-finite cost.
Partition partition_balanced(const std::vector<double>& costs, int stages);

/// Checks a list given by the user. `name`  what the user knows it by.
/// Errors  UsageError when a size is < 1 or the sum is not `nodes`; the message names both sums and the cure.
Partition partition_given(const std::vector<int>& sizes, int nodes, std::string_view name = "partition");

/// The slowest stage's cost under a partition.
double bottleneck(const Partition& partition, const std::vector<double>& costs);

}  // namespace sluice::parallel
