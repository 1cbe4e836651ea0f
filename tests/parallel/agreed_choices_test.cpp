#include "parallel/run/agreed_choices.h"

#include <gtest/gtest.h>

#include "parallel/group/thread_group.h"

namespace sluice::parallel {
namespace {

TEST(AgreedChoices, AreThoseOfAllRanksAndOfTheLeastWhereSeveralHaveOne) {
  run_ranks(3, [](Group& group) {
    const std::vector<GpuChoices> of_ranks = {{}, {{"one", "b"}, {"two", "b"}}, {{"two", "c"}, {"three", "c"}}};
    const GpuChoices all = {{"one", "b"}, {"two", "b"}, {"three", "c"}};
    EXPECT_EQ(agreed_choices(&group, of_ranks[static_cast<size_t>(group.rank())]), all);
    EXPECT_TRUE(any_rank(&group, group.rank() == 2));
    EXPECT_FALSE(any_rank(&group, false));
  });
}

TEST(AgreedChoices, AreItsOwnInOneProcess) {
  EXPECT_EQ(agreed_choices(nullptr, {{"one", "a"}}), (GpuChoices{{"one", "a"}}));
  EXPECT_TRUE(any_rank(nullptr, true));
  EXPECT_FALSE(any_rank(nullptr, false));
}

}  // namespace
}  // namespace sluice::parallel
