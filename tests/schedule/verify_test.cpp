#include "parallel/verify.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.h"
#include "tests/schedule/example_plans.h"
#include "tests/schedule/mutations.h"
#include "tests/schedule/pick.h"

namespace sluice::parallel {
namespace {

/// Skips, recomputation, a tied parameter over two stages, several micro-batches: every mutation finds a place in it.
Plan rich_plan() { return {skip_topology(), {{1, 2, 2}}, make_schedule("1f1b", 3, 4), {true, false, true, true, false}}; }

std::string reason(const Plan& plan, const Program& program) {
  const auto found = verify(plan.topology, program);
  return found ? found->reason : "nothing found";
}

int index_of(const Plan& plan, const Program& program, int device, const std::string& description) {
  const auto& actions = program.devices[device];
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (describe(actions[i], plan.topology) == description) return static_cast<int>(i);
  throw UsageError("the device has no " + description);
}

class Verify : public testing::TestWithParam<Mutation> {};

TEST_P(Verify, RefusesTheRichProgramAtEveryPlaceThat) {
  const Plan plan = rich_plan();
  const Program right = plan.lowered();
  const auto damaged_places = places(GetParam(), right);
  EXPECT_FALSE(damaged_places.empty());
  for (const Place& place : damaged_places) {
    Program wrong = right;
    GetParam().damage(wrong, place);
    EXPECT_TRUE(verify(plan.topology, wrong)) << describe(at(right, place), plan.topology) << " on device " << place.device;
  }
}

INSTANTIATE_TEST_SUITE_P(Mutations, Verify, testing::ValuesIn(all_mutations()), [](const auto& info) { return info.param.name; });

RC_GTEST_PROP(VerifyRandom, RefusesAnyProgramWithAnyDamage, ()) {
  const Plan plan = random_plan();
  Program program = plan.lowered();
  const auto mutations = all_mutations();
  const Mutation& mutation = mutations[pick(0, static_cast<int>(mutations.size()))];
  const auto candidates = places(mutation, program);
  RC_PRE(!candidates.empty());
  const Place place = candidates[pick(0, static_cast<int>(candidates.size()))];
  const std::string action = describe(at(program, place), plan.topology);
  mutation.damage(program, place);
  if (!verify(plan.topology, program)) RC_FAIL(join(mutation.name, " at ", action, " on device ", place.device, " in ", plan));
}

TEST(VerifyReason, NamesAMissingAction) {
  const Plan plan = rich_plan();
  Program program = plan.lowered();
  auto& actions = program.devices[1];
  actions.erase(actions.begin() + index_of(plan, program, 1, "B(stage 1, micro-batch 2)"));
  const auto found = verify(plan.topology, program);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, 1);
  EXPECT_EQ(found->index, -1);
  EXPECT_EQ(found->reason,
            "B(stage 1, micro-batch 2) on device 1 is missing: in training each stage runs B, or I and W, of every "
            "micro-batch exactly once, on its device");
}

TEST(VerifyReason, NamesTheBufferThatWasFreedAndByWhom) {
  const Plan plan = rich_plan();
  Program program = plan.lowered();
  auto& actions = program.devices[2];
  actions[index_of(plan, program, 2, "F(stage 2, micro-batch 1)")].frees.push_back({Buffer::Kind::tape, 2, 1});
  EXPECT_EQ(reason(plan, program),
            "R(stage 2, micro-batch 1) on device 2 uses the tape held by stage 2 for micro-batch 1, which "
            "F(stage 2, micro-batch 1) has freed: nothing is touched after it is freed");
}

TEST(VerifyReason, NamesBothSidesOfADeadlock) {
  const Plan plan{chain_topology(2), {{1, 1}}, make_schedule("gpipe", 2, 1), {false, false}};
  Program program = plan.lowered();
  move_to_front(program, {0, 2});
  const auto found = verify(plan.topology, program);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, 0);
  EXPECT_EQ(found->index, 0);
  EXPECT_EQ(found->reason,
            "Recv gradient of 'n0' at 'n1' of micro-batch 0 from stage 1 to stage 0 on device 0 waits for ever: device 1, which "
            "sends it, stands in Recv activation 'n0' of micro-batch 0 from stage 0 to stage 1 before it comes to that Send");
}

TEST(VerifyReason, NamesTheOrderOfAccumulation) {
  const Plan plan{chain_topology(1), {{1}}, make_schedule("gpipe", 1, 2), {false}};
  Program program = plan.lowered();
  std::swap(program.devices[0][2], program.devices[0][3]);
  EXPECT_EQ(reason(plan, program),
            "B(stage 0, micro-batch 0) on device 0 comes after micro-batch 1: a stage accumulates its gradients in "
            "ascending micro-batch order");
}

TEST(VerifyReason, DescribesActionsWhoseNumbersNameNothing) {
  const Plan plan = rich_plan();
  Program program = plan.lowered();
  Action& send = program.devices[0][index_of(plan, program, 0, "Send activation 'a' of micro-batch 0 from stage 0 to stage 1")];
  send.transfer.value = 77;
  EXPECT_TRUE(
      reason(plan, program).starts_with("Send activation value 77 of micro-batch 0 from stage 0 to stage 1 on device 0 has no place"));
}

TEST(VerifyReason, AProgramOfAnotherModelIsRefused) {
  EXPECT_NE(reason({chain_topology(3), {}, {}, {}}, rich_plan().lowered()).find("does not belong to the model"), std::string::npos);
}

TEST(VerifyReason, IsThrownByRequireValid) {
  const Plan plan = rich_plan();
  Program program = plan.lowered();
  EXPECT_NO_THROW(require_valid(plan.topology, program));
  program.devices[0].pop_back();
  EXPECT_THROW(require_valid(plan.topology, program), UsageError);
}

}  // namespace
}  // namespace sluice::parallel
