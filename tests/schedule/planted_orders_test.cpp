// The orders of tests/emulated/nccl_orders_test.cpp, which hang on GPUs, as programs: `verify` refuses each with the rules that it has. One
// communicator a channel makes those rules the ones that NCCL needs: the receives of a channel are posted in the order of its sends, so both
// ends of a communicator have one list of operations; and all lists run to their ends when the transfers of a channel run one after the
// other and nothing is buffered, so program order and "one operation of a communicator at a time" have no circle.
// Four of the orders are none that a program can have. It has no groups (AnExchangeGroupedAtOneEnd, SendsGroupedAndReceivesSingle), because
// the transport makes single calls; and no connections and communicators (FirstUsesInACircle, CommunicatorsMadeInUnequalOrders), because
// they are made before it, in one order on all ranks.
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/program/verify.h"
#include "tests/schedule/example_plans.h"

namespace sluice::parallel {
namespace {

struct PlantedProgram {
  std::string name;
  Plan plan;
  std::function<void(Program&)> damage;
  std::string rule;  ///< words of the refusal; empty: the order is right where every channel has a communicator of its own
};

Plan pair_plan() { return {chain_topology(2), {{1, 1}}, make_schedule(NamedSchedule::one_f_one_b, 2, 3), {false, false}, {8, 16, 8}}; }

/// Four stages on three devices, the last one with the first, so that values go around.
Plan ring_plan() { return {chain_topology(4), {{1, 1, 1, 1}}, forward_schedule({0, 1, 2, 0}, 5), std::vector<bool>(4), {8, 8, 8, 8, 8}}; }

using Wanted = std::function<bool(const Action&)>;

Wanted transfer(ActionKind kind, Payload payload, int from, int micro_batch) {
  return [=](const Action& action) {
    return action.kind == kind && action.transfer.payload == payload && action.transfer.from == from && action.micro_batch == micro_batch;
  };
}

std::vector<Action>::iterator place_of(std::vector<Action>& actions, const Wanted& wanted) {
  const auto place = std::ranges::find_if(actions, wanted);
  require(place != actions.end(), "a planted order needs an action that the program has");
  return place;
}

void take_out(std::vector<Action>& actions, const Wanted& wanted) { actions.erase(place_of(actions, wanted)); }

void move_to_front(std::vector<Action>& actions, const Wanted& wanted) {
  const auto place = place_of(actions, wanted);
  std::rotate(actions.begin(), place, place + 1);
}

/// Posts every receive when it is waited for, and waits for every send when it begins: what ungrouped calls do, each waited for.
void wait_at_once(Program& program) {
  for (auto& actions : program.devices)
    for (const Action& action : std::vector(actions)) {
      const bool waits = action.kind == ActionKind::send_wait;
      if (!waits && action.kind != ActionKind::recv_post) continue;
      const auto same = [&](ActionKind kind) {
        return [&, kind](const Action& other) {
          return other.kind == kind && other.transfer == action.transfer && other.micro_batch == action.micro_batch;
        };
      };
      take_out(actions, same(action.kind));
      actions.insert(place_of(actions, same(waits ? ActionKind::send : ActionKind::recv)) + (waits ? 1 : 0), action);
    }
}

std::vector<PlantedProgram> planted_programs() {
  const auto activation = [](ActionKind kind, int micro_batch, int from = 0) {
    return transfer(kind, Payload::activation, from, micro_batch);
  };
  const auto gradient = [](ActionKind kind, int micro_batch) { return transfer(kind, Payload::gradient, 1, micro_batch); };
  return {
      {"SendsThatCrossOnOneCommunicator", pair_plan(), wait_at_once, "waits for ever"},
      {"ReceivesThatCrossOnOneCommunicator", pair_plan(),
       [=](Program& program) {
         for (const auto kind : {ActionKind::recv, ActionKind::recv_post}) move_to_front(program.devices[0], gradient(kind, 0));
       },
       "waits for ever"},
      {"AWaitingReceiveBeforeASendOnOneSharedCommunicator", pair_plan(),
       [=](Program& program) { move_to_front(program.devices[0], gradient(ActionKind::recv_post, 0)); }, ""},
      {"AChannelsMessagesReceivedInAnotherOrder", pair_plan(),
       [=](Program& program) { move_to_front(program.devices[1], activation(ActionKind::recv_post, 1)); },
       "receives are posted in the order of the sends"},
      {"AMessageThatNobodyReceives", pair_plan(),
       [=](Program& program) {
         for (const auto kind : {ActionKind::recv, ActionKind::recv_post}) take_out(program.devices[1], activation(kind, 2));
       },
       "is missing"},
      {"AReceiveThatNobodySends", pair_plan(),
       [=](Program& program) {
         for (const auto kind : {ActionKind::send, ActionKind::send_wait}) take_out(program.devices[0], activation(kind, 2));
       },
       "is missing"},
      {"AReceiveOfAnotherSize", pair_plan(),
       [=](Program& program) { place_of(program.devices[1], activation(ActionKind::recv, 0))->bytes = 12; },
       "both ends of a transfer are of one shape"},
      {"ACircleOfSends", ring_plan(), wait_at_once, "waits for ever"},
      {"ACircleOfReceives", ring_plan(),
       [=](Program& program) {
         for (const auto kind : {ActionKind::recv, ActionKind::recv_post}) move_to_front(program.devices[0], activation(kind, 0, 2));
       },
       "waits for ever"},
  };
}

class PlantedOrders : public testing::TestWithParam<PlantedProgram> {};

TEST_P(PlantedOrders, AreRefusedWhereTheyHang) {
  const PlantedProgram& planted = GetParam();
  Program program = planted.plan.lowered();
  EXPECT_FALSE(verify(planted.plan.topology, program)) << "the right order";
  planted.damage(program);
  const auto found = verify(planted.plan.topology, program);
  ASSERT_EQ(found.has_value(), !planted.rule.empty()) << (found ? found->reason : "");
  if (found) {
    EXPECT_NE(found->reason.find(planted.rule), std::string::npos) << found->reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Planted, PlantedOrders, testing::ValuesIn(planted_programs()), [](const auto& info) { return info.param.name; });

/// Three devices wait for each other: no two of them do.
TEST(PlantedOrdersReason, NamesTheNextDeviceOfACircle) {
  const Plan plan = ring_plan();
  Program program = plan.lowered();
  wait_at_once(program);
  const auto found = verify(plan.topology, program);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->device, 0);
  EXPECT_NE(found->reason.find("device 1, which receives it, stands in SendWait"), std::string::npos) << found->reason;
}

}  // namespace
}  // namespace sluice::parallel
