#include "parallel/program/partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "core/error.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

using Sizes = std::vector<int>;

/// All lists of `stages` sizes with the sum `nodes`, in lexicographic order.
std::vector<Sizes> all_cuts(int nodes, int stages) {
  if (stages == 1) return {{nodes}};
  std::vector<Sizes> cuts;
  for (int first = 1; first <= nodes - stages + 1; ++first)
    for (Sizes& rest : all_cuts(nodes - first, stages - 1)) {
      rest.insert(rest.begin(), first);
      cuts.push_back(rest);
    }
  return cuts;
}

Sizes best_by_enumeration(const std::vector<double>& costs, int stages) {
  Sizes best;
  for (const Sizes& cut : all_cuts(static_cast<int>(costs.size()), stages))
    if (best.empty() || bottleneck({cut}, costs) < bottleneck({best}, costs)) best = cut;
  return best;
}

std::string message_of(const Sizes& sizes, int nodes) {
  try {
    partition_given(sizes, nodes);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Partition, KnowsTheNodesOfEachStage) {
  const Partition partition{{2, 1, 3}};
  EXPECT_EQ(partition.node_count(), 6);
  EXPECT_EQ(partition.first_node(2), 3);
  EXPECT_EQ(partition.end_node(2), 6);
  const Sizes expected{0, 0, 1, 2, 2, 2};
  for (int node = 0; node < 6; ++node) EXPECT_EQ(partition.stage_of(node), expected[node]);
}

TEST(Partition, UniformPutsTheLongerStagesFirst) {
  EXPECT_EQ(partition_uniform(8, 3).sizes, (Sizes{3, 3, 2}));
  EXPECT_EQ(partition_uniform(4, 4).sizes, (Sizes{1, 1, 1, 1}));
}

TEST(Partition, RefusesMoreStagesThanNodesAndFewerThanOne) {
  EXPECT_THROW(partition_uniform(3, 4), UsageError);
  EXPECT_THROW(partition_uniform(3, 0), UsageError);
  EXPECT_THROW(partition_balanced({1, 2, 3}, 4), UsageError);
}

TEST(Partition, BalancedRefusesCostsThatAreNoCosts) {
  EXPECT_THROW(partition_balanced({1, -1}, 1), UsageError);
  EXPECT_THROW(partition_balanced({1, std::numeric_limits<double>::quiet_NaN()}, 1), UsageError);
  EXPECT_THROW(partition_balanced({1, std::numeric_limits<double>::infinity()}, 1), UsageError);
}

TEST(Partition, BalancedBreaksTiesTowardsShortFirstStages) { EXPECT_EQ(partition_balanced({9, 1, 1, 1}, 3).sizes, (Sizes{1, 1, 2})); }

RC_GTEST_PROP(Partition, BalancedEqualsTheFirstBestOfAllCuts, ()) {
  const bool ties = pick(0, 2) == 0;  // small whole costs tie often
  std::vector<double> costs(pick(1, 11));
  for (double& cost : costs) cost = ties ? pick(0, 4) : pick(0, 1'000'000) / 7.0;
  const int stages = pick(1, static_cast<int>(costs.size()) + 1);
  RC_ASSERT(partition_balanced(costs, stages).sizes == best_by_enumeration(costs, stages));
}

TEST(Partition, GivenSizesAreTakenAsTheyAre) { EXPECT_EQ(partition_given({3, 1}, 4).sizes, (Sizes{3, 1})); }

TEST(Partition, GivenSizesWithAnotherSumAreRefusedWithBothSums) {
  const std::string message = message_of({3, 4}, 9);
  EXPECT_NE(message.find("9 nodes"), std::string::npos) << message;
  EXPECT_NE(message.find("sum 7"), std::string::npos) << message;
}

TEST(Partition, GivenEmptyStagesAreRefused) {
  EXPECT_NE(message_of({3, 0, 1}, 4).find("got 0 for stage 1"), std::string::npos);
  EXPECT_NE(message_of({}, 4).find("empty list"), std::string::npos);
}

}  // namespace
}  // namespace sluice::parallel
