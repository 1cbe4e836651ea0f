#include "parallel/program/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "core/error.h"
#include "parallel/schedule/named.h"
#include "parallel/schedule/search.h"
#include "tests/schedule/example_plans.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

/// "0F0 0F1 0B0 ...": stage, action and micro-batch in the order of one device.
std::string text(const std::vector<ComputeAction>& order) {
  std::string out;
  for (const auto& action : order)
    out += join(out.empty() ? "" : " ", action.stage, "FBIW"[static_cast<int>(action.kind)], action.micro_batch);
  return out;
}

/// F = I = W = 1 of every stage.
StageCosts unit_costs(int stages) { return equal_stage_costs(stages, 1, 1, 1); }

/// The most micro-batches that have run forward and not yet backward.
int peak_alive(const std::vector<ComputeAction>& order) {
  int alive = 0, peak = 0;
  for (const auto& action : order) peak = std::max(peak, alive += action.kind == Compute::forward ? 1 : -1);
  return peak;
}

TEST(Schedule, GPipeRunsAllForwardsThenAllBackwardsInAscendingOrder) {
  const Schedule schedule = make_schedule(NamedSchedule::gpipe, 2, 3);
  EXPECT_EQ(text(schedule.devices[0]), "0F0 0F1 0F2 0B0 0B1 0B2");
  EXPECT_EQ(schedule.devices[0], (std::vector<ComputeAction>{{Compute::forward, 0, 0},
                                                             {Compute::forward, 0, 1},
                                                             {Compute::forward, 0, 2},
                                                             {Compute::backward, 0, 0},
                                                             {Compute::backward, 0, 1},
                                                             {Compute::backward, 0, 2}}));
  EXPECT_EQ(schedule.device_of_stage, (std::vector<int>{0, 1}));
}

TEST(Schedule, OneFOneBAlternatesAfterItsWarmUp) {
  const Schedule schedule = make_schedule(NamedSchedule::one_f_one_b, 3, 4);
  EXPECT_EQ(text(schedule.devices[0]), "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  EXPECT_EQ(text(schedule.devices[1]), "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  EXPECT_EQ(text(schedule.devices[2]), "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3");
}

TEST(Schedule, OneFOneBTakesFewerMicroBatchesThanStages) {
  EXPECT_EQ(text(make_schedule(NamedSchedule::one_f_one_b, 4, 2).devices[0]), "0F0 0F1 0B0 0B1");
}

TEST(Schedule, ForwardOnlyHasNoBackward) { EXPECT_EQ(text(forward_schedule({0, 1}, 2).devices[1]), "1F0 1F1"); }

TEST(Schedule, ForwardOnlyOnAVTakesTheDeeperStageFirst) {
  const Schedule schedule = forward_schedule({0, 1, 1, 0}, 3);
  EXPECT_EQ(text(schedule.devices[0]), "0F0 0F1 0F2 3F0 3F1 3F2");
  EXPECT_EQ(text(schedule.devices[1]), "1F0 2F0 1F1 2F1 1F2 2F2");
}

TEST(Schedule, InterleavedTakesGroupsOfAsManyMicroBatchesAsDevices) {
  const Schedule schedule = make_schedule(NamedSchedule::interleaved, 2, 4, 2);
  EXPECT_EQ(schedule.device_of_stage, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(text(schedule.devices[0]), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(text(schedule.devices[1]), "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
}

TEST(Schedule, InterleavedLeavesOutWhatALastGroupHasTooFew) {
  EXPECT_EQ(text(make_schedule(NamedSchedule::interleaved, 2, 3, 2).devices[0]), "0F0 0F1 2F0 2F1 0F2 2B0 2B1 2F2 0B0 0B1 2B2 0B2");
}

TEST(Schedule, InterleavedWithOneStageADeviceIs1F1B) {
  for (int m = 1; m < 9; ++m)
    EXPECT_EQ(make_schedule(NamedSchedule::interleaved, 4, m, 1).devices, make_schedule(NamedSchedule::one_f_one_b, 4, m).devices);
}

TEST(Schedule, ZbH1PutsWeightGradientsOffUntilMemoryIsFull) {
  const Schedule schedule = make_schedule(NamedSchedule::zb_h1, 3, 4);
  EXPECT_EQ(text(schedule.devices[0]), "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3");
  EXPECT_EQ(text(schedule.devices[2]), "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3");
}

TEST(Schedule, ZbVFollowsTheHandcraftedSteps) {
  const Schedule schedule = make_schedule(NamedSchedule::zb_v, 2, 4);
  EXPECT_EQ(schedule.device_of_stage, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(text(schedule.devices[0]), "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3");
  EXPECT_EQ(text(schedule.devices[1]), "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3");
}

/// What every schedule must have: each stage on its device, each micro-batch once, and gradients that accumulate in ascending order.
void require_complete(const Schedule& schedule) {
  const int stages = schedule.stage_count(), m = schedule.micro_batches;
  std::vector<int> forwards(stages, 0), inputs(stages, 0), backwards(stages, 0), weights(stages, 0);
  for (int device = 0; device < schedule.device_count(); ++device)
    for (const auto& [kind, stage, micro_batch] : schedule.devices[device]) {
      RC_ASSERT(schedule.device_of_stage[stage] == device);
      int& next = kind == Compute::forward ? forwards[stage] : kind == Compute::input_gradient ? inputs[stage] : backwards[stage];
      RC_ASSERT(micro_batch == next++);
      if (kind == Compute::weight_gradient) RC_ASSERT(++weights[stage] <= inputs[stage]);
    }
  for (int stage = 0; stage < stages; ++stage) {
    RC_ASSERT(forwards[stage] == m);
    RC_ASSERT(inputs[stage] == weights[stage]);
    RC_ASSERT(backwards[stage] == (schedule.name == "forward-only" ? 0 : m));
  }
}

RC_GTEST_PROP(Schedule, EachStageRunsEachMicroBatchOnceAndGradientsAscend, ()) {
  const auto name = *rc::gen::elementOf(kNamedSchedules);
  const int devices = pick(1, 9), micro_batches = pick(1, 20);
  const int v = name == NamedSchedule::interleaved ? pick(1, 4) : name == NamedSchedule::zb_v ? pick(1, 3) : 1;
  const Schedule schedule = make_schedule(name, devices, micro_batches, v);
  RC_ASSERT(schedule.device_of_stage == stage_placement(name, devices, v));
  RC_ASSERT(make_schedule(name, schedule.device_of_stage, micro_batches).devices == schedule.devices);
  require_complete(schedule);
  time_schedule(schedule, unit_costs(schedule.stage_count()));  // throws when it waits in a circle
}

RC_GTEST_PROP(Schedule, ForwardOnlyTakesAnyPlacementWithoutWaitingInACircle, ()) {
  const int stages = pick(1, 12), micro_batches = pick(1, 12);
  const Schedule schedule = forward_schedule(random_placement(stages), micro_batches);
  require_complete(schedule);
  RC_ASSERT(time_schedule(schedule, unit_costs(stages)).seconds <= stages + micro_batches * stages);
}

RC_GTEST_PROP(Schedule, ForwardOnlyTakesNoLongerWithFewerMicroBatches, ()) {
  const int devices = pick(1, 7), m = pick(1, 20);
  const auto placement = stage_placement(NamedSchedule::gpipe, devices);
  const auto seconds = [&](int micro_batches) {
    return time_schedule(forward_schedule(placement, micro_batches), unit_costs(devices)).seconds;
  };
  RC_ASSERT(seconds(m) <= seconds(m + 1) + 1e-9);
}

RC_GTEST_PROP(Schedule, FewerMicroBatchesNeverTakeLonger, ()) {
  const auto name = *rc::gen::elementOf(kNamedSchedules);
  const int devices = pick(1, 7), v = name == NamedSchedule::interleaved ? pick(2, 4) : 1, m = pick(1, 20);
  const auto seconds = [&](int micro_batches) {
    const Schedule schedule = make_schedule(name, devices, micro_batches, v);
    return time_schedule(schedule, unit_costs(schedule.stage_count())).seconds;
  };
  RC_ASSERT(seconds(m) <= seconds(m + 1) + 1e-9);
}

RC_GTEST_PROP(Schedule, OneFOneBKeepsAtMostStagesMinusRankMicroBatchesAlive, ()) {
  const int stages = pick(1, 9), micro_batches = pick(1, 20);
  const Schedule schedule = make_schedule(NamedSchedule::one_f_one_b, stages, micro_batches);
  for (int stage = 0; stage < stages; ++stage) RC_ASSERT(peak_alive(schedule.devices[stage]) == std::min(stages - stage, micro_batches));
}

RC_GTEST_PROP(Schedule, GPipeKeepsEveryMicroBatchAlive, ()) {
  const int stages = pick(1, 9), micro_batches = pick(1, 20);
  for (const auto& order : make_schedule(NamedSchedule::gpipe, stages, micro_batches).devices)
    RC_ASSERT(peak_alive(order) == micro_batches);
}

TEST(Schedule, NamesTheNearestOfAnUnknownName) {
  try {
    schedule_named("gpip");
    FAIL() << "an unknown schedule was taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'gpipe'"), std::string::npos) << error.what();
  }
}

TEST(Schedule, IsNamedInHelpAndConfigsAsInPapers) {
  for (const NamedSchedule schedule : kNamedSchedules) EXPECT_EQ(schedule_named(name_of(schedule)), schedule);
  EXPECT_EQ(name_of(NamedSchedule::one_f_one_b), "1f1b");
  EXPECT_EQ(name_of(NamedSchedule::zb_h1), "zb-h1");
  EXPECT_EQ(name_of(NamedSchedule::zb_v), "zb-v");
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(Schedule, RefusesNoStagesAndNoMicroBatches) {
  EXPECT_THROW(make_schedule(NamedSchedule::gpipe, 0, 1), UsageError);
  EXPECT_THROW(make_schedule(NamedSchedule::gpipe, 1, 0), UsageError);
  EXPECT_THROW(make_schedule(NamedSchedule::zb_v, std::vector<int>{}, 1), UsageError);
  EXPECT_THROW(make_schedule(NamedSchedule::zb_v, {0, 0}, 0), UsageError);
}

TEST(Schedule, TellsHowManyStagesADeviceHas) {
  EXPECT_EQ(stages_per_device(NamedSchedule::gpipe, 1), 1);
  EXPECT_EQ(stages_per_device(NamedSchedule::interleaved, 3), 3);
  EXPECT_EQ(stages_per_device(NamedSchedule::zb_v, 1), 2);
  EXPECT_EQ(stages_per_device(NamedSchedule::zb_v, 2), 2);
}

TEST(Schedule, RefusesVirtualStagesThatAScheduleCannotHave) {
  EXPECT_EQ(refusal([] { make_schedule(NamedSchedule::one_f_one_b, 2, 2, 2); }),
            "schedule: 1f1b has 1 stage a device, got virtual_stages 2; set virtual_stages to 1 or choose interleaved");
  EXPECT_EQ(refusal([] { stages_per_device(NamedSchedule::zb_v, 3); }),
            "schedule: zb-v has 2 stages a device, got virtual_stages 3; set virtual_stages to 2 or choose interleaved");
  EXPECT_NE(refusal([] { stages_per_device(NamedSchedule::interleaved, 0); }), "taken");
}

TEST(Schedule, RefusesAnotherPlacementAndDevicesWithoutAStage) {
  EXPECT_EQ(
      refusal([] {
        make_schedule(NamedSchedule::zb_v, {0, 1, 0, 1}, 2);
      }),
      "schedule: zb-v over 2 devices needs its stages on the devices [0,1,1,0], got [0,1,0,1]; place them so or choose another schedule");
  EXPECT_NE(refusal([] { forward_schedule({0, 2}, 2); }).find("[0,2]"), std::string::npos);
  EXPECT_NE(refusal([] { forward_schedule({0, -1}, 2); }), "taken");
  EXPECT_NE(refusal([] { forward_schedule({0, 1 << 30}, 2); }), "taken");
}

}  // namespace
}  // namespace sluice::parallel
