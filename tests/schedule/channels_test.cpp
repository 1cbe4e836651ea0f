// Where lower puts RecvPost and SendWait, the two actions that make a transfer's life explicit.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "parallel/program/program.h"
#include "parallel/program/verify.h"
#include "tests/schedule/example_plans.h"

namespace sluice::parallel {
namespace {

TEST(Channels, FreesASentValueWhenItsLastSendHasEnded) {
  const Program program = skip_plan({1, 1, 3}, "gpipe", 1).lowered();
  std::vector<std::vector<Buffer>> frees;
  for (const Action& action : program.devices[0]) {
    if (action.kind == ActionKind::send) {
      EXPECT_TRUE(action.frees.empty());
    }
    if (action.kind == ActionKind::send_wait && action.transfer.payload == Payload::activation) frees.push_back(action.frees);
  }
  EXPECT_EQ(frees, (std::vector<std::vector<Buffer>>{{}, {{Buffer::Kind::value, 0, 0, 2}}}));
}

// 'a' goes from stage 0 to stage 1 on the same device, and to stage 2 on another.
TEST(Channels, FreesAValueThatStaysAndGoesWhenItsSendToTheOtherDeviceHasEnded) {
  Plan plan = skip_plan({1, 2, 2}, "gpipe", 1);
  plan.schedule = sequential_schedule({0, 0, 1}, 2, 1, false);
  const Buffer a{Buffer::Kind::value, 0, 0, 2};
  const Program program = plan.lowered();
  for (const Action& action : program.devices[0])
    if (std::ranges::find(action.frees, a) != action.frees.end()) {
      EXPECT_EQ(describe(action, plan.topology), "SendWait activation 'a' of micro-batch 0 from stage 0 to stage 2");
    }
}

Program chain_with(int stages, int micro_batches, TransferWindow window) {
  return lower(chain_topology(stages), partition_uniform(stages, stages), example_schedule("forward-only", stages, micro_batches),
               std::vector<bool>(stages, false), window);
}

/// The most actions of one kind that a list has run before as many of another.
int most_open(const Program& program, int device, ActionKind opens, ActionKind closes) {
  int open = 0, most = 0;
  for (const Action& action : program.devices[device]) {
    if (action.kind == opens) most = std::max(most, ++open);
    if (action.kind == closes) --open;
  }
  return most;
}

TEST(Channels, TheWindowSaysHowManyTransfersAChannelHasUnderWay) {
  for (int window = 0; window < 4; ++window) {
    const Program program = chain_with(2, 9, {window, window});
    EXPECT_EQ(most_open(program, 0, ActionKind::send, ActionKind::send_wait), std::max(1, window));
    EXPECT_EQ(most_open(program, 1, ActionKind::recv_post, ActionKind::recv), std::max(1, window));
  }
  EXPECT_THROW(chain_with(2, 9, {-1, 1}), UsageError);
  EXPECT_THROW(chain_with(2, 9, {1, -1}), UsageError);
}

TEST(Channels, ReceivesArePostedBeforeTheWorkThatTheirSendOverlaps) {
  const Lines list = lines(chain_with(2, 3, {}), chain_topology(2), 1);
  EXPECT_EQ(list, (Lines{
                      "RecvPost activation 'n0' of micro-batch 0 from stage 0 to stage 1",
                      "Recv activation 'n0' of micro-batch 0 from stage 0 to stage 1",
                      "RecvPost activation 'n0' of micro-batch 1 from stage 0 to stage 1",
                      "F(stage 1, micro-batch 0)",
                      "Recv activation 'n0' of micro-batch 1 from stage 0 to stage 1",
                      "RecvPost activation 'n0' of micro-batch 2 from stage 0 to stage 1",
                      "F(stage 1, micro-batch 1)",
                      "Recv activation 'n0' of micro-batch 2 from stage 0 to stage 1",
                      "F(stage 1, micro-batch 2)",
                  }));
}

RC_GTEST_PROP(Channels, EveryWindowGivesAProgramThatIsVerified, ()) {
  const Plan plan = random_plan();
  const TransferWindow window{pick(0, 5), pick(0, 5)};
  const auto found = verify(plan.topology, lower(plan.topology, plan.partition, plan.schedule, plan.rematerialize, window));
  if (found) RC_FAIL(join(found->reason, " with ", window.ahead, " and ", window.behind, " in ", plan));
}

}  // namespace
}  // namespace sluice::parallel
