#include "parallel/program/verify.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/error.h"
#include "parallel/program/program_bytes.h"
#include "parallel/schedule/named.h"
#include "tests/schedule/example_plans.h"
#include "tests/schedule/mutations.h"
#include "tests/schedule/pick.h"
#include "tests/schedule/symbolic_run.h"

namespace sluice::parallel {
namespace {

/// Skips, recomputation, a tied parameter over two stages, several micro-batches: every mutation finds a place in it.
Plan rich_plan() {
  return {skip_topology(),
          {{1, 2, 2}},
          make_schedule(NamedSchedule::one_f_one_b, 3, 4),
          {true, false, true, true, false},
          {8, 8, 16, 8, 24, 8, 8}};
}

/// Four stages on two devices, a V with split backwards, fewer micro-batches than stages.
Plan folded_plan() {
  return {skip_topology(),
          {{1, 1, 1, 2}},
          make_schedule(NamedSchedule::zb_v, 2, 3, 2),
          {false, true, true, false, false},
          {8, 8, 16, 8, 24, 8, 8}};
}

/// Two replicas of the rich plan, the second one with a micro-batch more.
Plan replicated_plan(bool shards_optimizer = true) {
  Plan plan = rich_plan();
  plan.replication = {2, 4, shards_optimizer};
  plan.schedule = replicated({make_schedule(NamedSchedule::one_f_one_b, 3, 2), make_schedule(NamedSchedule::zb_h1, 3, 3)}, 5);
  return plan;
}

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

void expect_refusal_everywhere(const Mutation& mutation, const Plan& plan) {
  const Program right = plan.lowered();
  const auto damaged_places = places(mutation, right);
  for (const Place& place : damaged_places) {
    Program wrong = right;
    mutation.damage(wrong, place);
    EXPECT_TRUE(verify(plan.topology, wrong)) << describe(at(right, place), plan.topology) << " on device " << place.device;
  }
}

TEST_P(Verify, RefusesTheRichProgramAtEveryPlaceThat) {
  const auto applies = [](const Plan& plan) { return !places(GetParam(), plan.lowered()).empty(); };
  EXPECT_TRUE(applies(rich_plan()) || applies(replicated_plan(true)) || applies(replicated_plan(false)));
  expect_refusal_everywhere(GetParam(), rich_plan());
}

TEST_P(Verify, RefusesTheFoldedProgramAtEveryPlaceThat) { expect_refusal_everywhere(GetParam(), folded_plan()); }

TEST_P(Verify, RefusesReplicasAtEveryPlaceThat) {
  for (const bool shards_optimizer : {true, false}) expect_refusal_everywhere(GetParam(), replicated_plan(shards_optimizer));
}

INSTANTIATE_TEST_SUITE_P(Mutations, Verify, testing::ValuesIn(all_mutations()), [](const auto& info) { return info.param.name; });

RC_GTEST_PROP(VerifyRandom, RefusesAnyProgramWithAnyDamage, ()) {
  const Plan plan = pick(0, 2) == 0 ? random_plan() : random_replicated_plan();
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

/// Damage that is by luck none is told by running right and wrong program on symbols; any other must be refused.
TEST(VerifyRandom, RefusesAllRandomDamageThatChangesWhatIsComputed) {
  constexpr int kDamagesAPlan = 60;
  struct Tally {
    int refused = 0, accepted = 0;
  };
  std::map<std::string, Tally> tallies;
  const bool holds = rc::check([&] {
    const Plan plan = pick(0, 2) == 0 ? random_plan() : random_replicated_plan();
    const Program right = plan.lowered();
    const auto wanted = SymbolicRun(plan.topology, right).end();
    RC_ASSERT(wanted);
    const auto mutations = random_mutations();
    for (int damage = 0; damage < kDamagesAPlan; ++damage) {
      Program wrong = right;
      const auto& [name, apply] = mutations[pick(0, static_cast<int>(mutations.size()))];
      apply(wrong);
      const bool is_refused = verify(plan.topology, wrong).has_value();
      ++(is_refused ? tallies[name].refused : tallies[name].accepted);
      if (!is_refused && SymbolicRun(plan.topology, wrong).end() != wanted) RC_FAIL(join("accepted: ", name, " in ", plan));
    }
  });
  EXPECT_TRUE(holds);
  for (const auto& [name, tally] : tallies) EXPECT_GT(tally.refused * 10, tally.accepted) << name << " is hardly ever damage";
}

TEST(SymbolicRun, TellsWrongProgramsFromRightOnes) {
  for (const Plan& plan : {rich_plan(), folded_plan(), replicated_plan()}) {
    const Program right = plan.lowered();
    const auto wanted = SymbolicRun(plan.topology, right).end();
    ASSERT_TRUE(wanted);
    for (const std::string name : {"DropsAnAction", "RunsAnActionTwice", "AccumulatesInAnotherOrder", "WaitsInACircle", "FreesTwice",
                                   "NeverFrees", "StepsBeforeTheGradients", "TakesTheNormBeforeTheGradients", "FreesTheTapeAfterForward"}) {
      const auto mutations = all_mutations();
      const Mutation& mutation = *std::ranges::find(mutations, name, &Mutation::name);
      for (const Place& place : places(mutation, right)) {
        Program wrong = right;
        mutation.damage(wrong, place);
        EXPECT_NE(SymbolicRun(plan.topology, wrong).end(), wanted) << name << " at " << describe(at(right, place), plan.topology);
      }
    }
  }
}

/// As if it were counted: action `index` of device `device` takes 100 + 10 device + index % 7 bytes.
Program counted(Program program) {
  for (int device = 0; device < program.device_count(); ++device)
    for (std::size_t index = 0; index < program.devices[device].size(); ++index)
      program.devices[device][index].peak_bytes = 100 + 10 * device + static_cast<int64_t>(index % 7);
  program.is_counted = true;
  return program;
}

TEST(VerifyBudget, RefusesOneByteLessThanTheProgramNeedsOnAnyDevice) {
  for (const Plan& plan : {rich_plan(), folded_plan()}) {
    const Program program = counted(plan.lowered());
    const std::vector<int64_t> peaks = peak_bytes(program);
    EXPECT_FALSE(verify(plan.topology, program, peaks));
    for (int device = 0; device < program.device_count(); ++device) {
      std::vector<int64_t> budgets = peaks;
      --budgets[device];
      const auto found = verify(plan.topology, program, budgets);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->device, device);
      EXPECT_EQ(found->index, 6) << "the first that needs so much";
    }
  }
}

TEST(VerifyBudget, NamesActionDeviceBytesAndBudget) {
  const Plan plan{chain_topology(1), {{1}}, make_schedule(NamedSchedule::gpipe, 1, 2), {false}};
  const auto found = verify(plan.topology, counted(plan.lowered()), {100});
  ASSERT_TRUE(found);
  EXPECT_EQ(
      found->reason,
      "F(stage 0, micro-batch 1) on device 0 needs 101 bytes, and the device's budget is 100 bytes: a device never holds more than its "
      "budget");
}

TEST(VerifyBudget, RefusesAProgramThatWasNotCounted) {
  const Plan plan{chain_topology(1), {{1}}, make_schedule(NamedSchedule::gpipe, 1, 2), {false}};
  const auto found = verify(plan.topology, plan.lowered(), {100});
  ASSERT_TRUE(found);
  EXPECT_NE(found->reason.find("must be counted first"), std::string::npos) << found->reason;
  EXPECT_THROW(verify(plan.topology, counted(plan.lowered()), {100, 100}), UsageError) << "two budgets for one device";
}

TEST(VerifyReason, NamesBothEndsOfUnequalBytes) {
  const Plan plan{chain_topology(2), {{1, 1}}, make_schedule(NamedSchedule::gpipe, 2, 1), {false, false}, {8, 16, 8}};
  Program program = plan.lowered();
  program.devices[1][1].bytes = 12;
  EXPECT_EQ(
      reason(plan, program),
      "Recv activation 'n0' of micro-batch 0 from stage 0 to stage 1 on device 1 has 12 bytes, and the other end, Send activation 'n0' "
      "of micro-batch 0 from stage 0 to stage 1, has 16: both ends of a transfer are of one shape");
}

TEST(VerifyReason, RefusesMoreMicroBatchesThanActionsBeforeItCountsThem) {
  const Plan plan = rich_plan();
  Program program = plan.lowered();
  program.micro_batches = std::numeric_limits<int>::max();
  EXPECT_NE(reason(plan, program).find("micro-batches"), std::string::npos);
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
  const Plan plan{chain_topology(2), {{1, 1}}, make_schedule(NamedSchedule::gpipe, 2, 1), {false, false}};
  Program program = plan.lowered();
  const std::string gradient = "gradient of 'n0' at 'n1' of micro-batch 0 from stage 1 to stage 0";
  for (const char* kind : {"Recv ", "RecvPost "}) move_to_front(program, {0, index_of(plan, program, 0, kind + gradient)});
  const auto found = verify(plan.topology, program);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, 0);
  EXPECT_EQ(found->index, 1);
  EXPECT_EQ(found->reason,
            "Recv gradient of 'n0' at 'n1' of micro-batch 0 from stage 1 to stage 0 on device 0 waits for ever: device 1, which "
            "sends it, stands in Recv activation 'n0' of micro-batch 0 from stage 0 to stage 1 before it comes to that Send");
}

Plan two_device_plan(int micro_batches) {
  return {chain_topology(2), {{1, 1}}, make_schedule(NamedSchedule::gpipe, 2, micro_batches), {false, false}};
}

TEST(VerifyReason, NamesBothEndsOfAChannelWhoseReceivesArePostedInAnotherOrder) {
  const Plan plan = two_device_plan(2);
  Program program = plan.lowered();
  const int first = index_of(plan, program, 1, "RecvPost activation 'n0' of micro-batch 0 from stage 0 to stage 1");
  move_to_front(program, {1, index_of(plan, program, 1, "RecvPost activation 'n0' of micro-batch 1 from stage 0 to stage 1")});
  ASSERT_EQ(first, 0);
  EXPECT_EQ(reason(plan, program),
            "RecvPost activation 'n0' of micro-batch 1 from stage 0 to stage 1 on device 1 is number 0 of its channel, and number 0 on "
            "device 0 is Send activation 'n0' of micro-batch 0 from stage 0 to stage 1: receives are posted in the order of the sends, or "
            "transfers meet what was not meant for them");
}

TEST(VerifyReason, NamesTheSendThatNeverEnds) {
  const Plan plan = two_device_plan(1);
  Program program = plan.lowered();
  auto& actions = program.devices[0];
  actions.erase(actions.begin() + index_of(plan, program, 0, "SendWait activation 'n0' of micro-batch 0 from stage 0 to stage 1"));
  EXPECT_EQ(reason(plan, program),
            "SendWait activation 'n0' of micro-batch 0 from stage 0 to stage 1 on device 0 is missing: a transfer between devices, and no "
            "other, has exactly one end of its Send, on the device that sends it");
}

TEST(VerifyReason, NamesWaitsThatComeBeforeWhatTheyWaitFor) {
  const Plan plan = two_device_plan(1);
  Program program = plan.lowered();
  move_to_front(program, {0, index_of(plan, program, 0, "SendWait activation 'n0' of micro-batch 0 from stage 0 to stage 1")});
  EXPECT_EQ(
      reason(plan, program),
      "SendWait activation 'n0' of micro-batch 0 from stage 0 to stage 1 on device 0 comes before Send activation 'n0' of micro-batch "
      "0 from stage 0 to stage 1: a transfer begins before its end is waited for");
  program = plan.lowered();
  move_to_front(program, {1, index_of(plan, program, 1, "Recv activation 'n0' of micro-batch 0 from stage 0 to stage 1")});
  EXPECT_EQ(
      reason(plan, program),
      "Recv activation 'n0' of micro-batch 0 from stage 0 to stage 1 on device 1 comes before RecvPost activation 'n0' of micro-batch "
      "0 from stage 0 to stage 1: a receive is posted before it is waited for");
}

TEST(VerifyReason, NamesAPostForWhatStaysOnItsDevice) {
  const Plan plan = folded_plan();
  Program program = plan.lowered();
  for (auto& actions : program.devices)
    for (const Action& action : std::vector(actions)) {
      if (action.kind != ActionKind::send || program.sender(action.transfer) != program.receiver(action.transfer)) continue;
      const std::vector<Action> right = actions;
      actions.insert(actions.begin(), {ActionKind::recv_post, action.transfer.to, action.micro_batch, action.transfer, {}, action.bytes});
      EXPECT_NE(reason(plan, program).find("has no place there: a transfer between devices, and no other, is posted"), std::string::npos);
      actions = right;
    }
}

/// Each of two devices sends and waits for the end of that before it posts what the other sends: buffers would hide it.
TEST(VerifyReason, NamesBothSidesOfSendsThatWaitForEachOther) {
  const Plan plan{chain_topology(2), {{1, 1}}, make_schedule(NamedSchedule::one_f_one_b, 2, 2), {false, false}};
  Program program = lower(plan.topology, plan.partition, plan.schedule, plan.rematerialize, {0, 0});
  const std::string activation = "activation 'n0' of micro-batch 1 from stage 0 to stage 1";
  const std::string gradient = "gradient of 'n0' at 'n1' of micro-batch 0 from stage 1 to stage 0";
  const auto put_before = [&](int device, const std::string& moved, const std::string& target) {
    auto& actions = program.devices[device];
    const int from = index_of(plan, program, device, moved);
    const Action action = actions[from];
    actions.erase(actions.begin() + from);
    actions.insert(actions.begin() + index_of(plan, program, device, target), action);
  };
  put_before(0, "RecvPost " + gradient, "Recv " + gradient);
  EXPECT_EQ(reason(plan, program), "nothing found");
  put_before(1, "RecvPost " + activation, "Recv " + activation);
  EXPECT_EQ(reason(plan, program), "SendWait " + activation +
                                       " on device 0 waits for ever: device 1, which receives it, stands in SendWait " + gradient +
                                       " before it comes to that RecvPost");
}

TEST(VerifyReason, NamesTheOrderOfAccumulation) {
  const Plan plan{chain_topology(1), {{1}}, make_schedule(NamedSchedule::gpipe, 1, 2), {false}};
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
