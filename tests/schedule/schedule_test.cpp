#include "parallel/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

/// "F0 F1 B0 ...": the order of one device.
std::string text(const std::vector<ComputeAction>& order) {
  std::string out;
  for (const auto& action : order) out += join(out.empty() ? "" : " ", "FBIW"[static_cast<int>(action.kind)], action.micro_batch);
  return out;
}

/// The most micro-batches that have run forward and not yet backward.
int peak_alive(const std::vector<ComputeAction>& order) {
  int alive = 0, peak = 0;
  for (const auto& action : order) peak = std::max(peak, alive += action.kind == Compute::forward ? 1 : -1);
  return peak;
}

std::vector<int> micro_batches_of(const std::vector<ComputeAction>& order, Compute kind) {
  std::vector<int> micro_batches;
  for (const auto& action : order)
    if (action.kind == kind) micro_batches.push_back(action.micro_batch);
  return micro_batches;
}

TEST(Schedule, GPipeRunsAllForwardsThenAllBackwardsInAscendingOrder) {
  const Schedule schedule = make_schedule("gpipe", 2, 3);
  EXPECT_EQ(text(schedule.devices[0]), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(schedule.devices[0], (std::vector<ComputeAction>{{Compute::forward, 0, 0},
                                                             {Compute::forward, 0, 1},
                                                             {Compute::forward, 0, 2},
                                                             {Compute::backward, 0, 0},
                                                             {Compute::backward, 0, 1},
                                                             {Compute::backward, 0, 2}}));
  EXPECT_EQ(schedule.device_of_stage, (std::vector<int>{0, 1}));
}

TEST(Schedule, OneFOneBAlternatesAfterItsWarmUp) {
  const Schedule schedule = make_schedule("1f1b", 3, 4);
  EXPECT_EQ(text(schedule.devices[0]), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(schedule.devices[1]), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(schedule.devices[2]), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Schedule, OneFOneBTakesFewerMicroBatchesThanStages) { EXPECT_EQ(text(make_schedule("1f1b", 4, 2).devices[0]), "F0 F1 B0 B1"); }

TEST(Schedule, ForwardOnlyHasNoBackward) { EXPECT_EQ(text(make_schedule("forward-only", 2, 2).devices[1]), "F0 F1"); }

RC_GTEST_PROP(Schedule, EachStageRunsEachMicroBatchOnceAndBackwardsAscend, ()) {
  const auto name = *rc::gen::element<std::string>("gpipe", "1f1b");
  const int stages = pick(1, 9), micro_batches = pick(1, 20);
  const Schedule schedule = make_schedule(name, stages, micro_batches);
  std::vector<int> all(micro_batches);
  for (int m = 0; m < micro_batches; ++m) all[m] = m;
  for (const auto& order : schedule.devices) {
    RC_ASSERT(micro_batches_of(order, Compute::forward) == all);
    RC_ASSERT(micro_batches_of(order, Compute::backward) == all);
  }
}

RC_GTEST_PROP(Schedule, OneFOneBKeepsAtMostStagesMinusRankMicroBatchesAlive, ()) {
  const int stages = pick(1, 9), micro_batches = pick(1, 20);
  const Schedule schedule = make_schedule("1f1b", stages, micro_batches);
  for (int stage = 0; stage < stages; ++stage) RC_ASSERT(peak_alive(schedule.devices[stage]) == std::min(stages - stage, micro_batches));
}

RC_GTEST_PROP(Schedule, GPipeKeepsEveryMicroBatchAlive, ()) {
  const int stages = pick(1, 9), micro_batches = pick(1, 20);
  for (const auto& order : make_schedule("gpipe", stages, micro_batches).devices) RC_ASSERT(peak_alive(order) == micro_batches);
}

TEST(Schedule, NamesTheNearestOfAnUnknownName) {
  try {
    make_schedule("gpip", 2, 2);
    FAIL() << "an unknown schedule was taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'gpipe'"), std::string::npos) << error.what();
  }
}

TEST(Schedule, RefusesNoStagesAndNoMicroBatches) {
  EXPECT_THROW(make_schedule("gpipe", 0, 1), UsageError);
  EXPECT_THROW(make_schedule("gpipe", 1, 0), UsageError);
}

}  // namespace
}  // namespace sluice::parallel
