// An open window passes a whole list of actions, which was counted anew for each transfer: planning took four times as long for twice the
// micro-batches, half a minute for 32,000 of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/schedule/example_plans.h"

namespace sluice::parallel {
namespace {

constexpr int kMicroBatches = 50'000;

/// Of three nodes on two devices.
double seconds_to_lower(std::string_view schedule, const TransferWindow& window) {
  const Schedule order = example_schedule(schedule, 2, kMicroBatches);
  const auto began = std::chrono::steady_clock::now();
  const Program program = lower(chain_topology(3), {{1, 2}}, order, std::vector<bool>(3), window);
  EXPECT_GT(program.devices[0].size(), size_t{6} * kMicroBatches);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

TEST(ManyMicroBatches, AreLoweredInTimeWhateverTheWindow) {
  for (const char* schedule : {"1f1b", "gpipe"})
    for (const TransferWindow& window : {TransferWindow{}, TransferWindow{64, 64}, TransferWindow{20'000, 20'000}, kOpenWindow})
      EXPECT_LT(seconds_to_lower(schedule, window), 15) << schedule << ", " << window.ahead << " actions ahead: some tenths of a second";
}

/// The first action behind, and before, so many computing ones.
TEST(ManyMicroBatches, ArePostedAndWaitedForSoManyComputingActionsAway) {
  const Topology topology = chain_topology(2);
  const Schedule order = example_schedule("gpipe", 2, 4);
  for (const int behind : {0, 1, 2, 5, 7, 8, 9, 1000}) {
    SCOPED_TRACE(behind);
    const Program program = lower(topology, {{1, 1}}, order, std::vector<bool>(2), {1, behind});
    int computed = -1;  // since the Send of micro-batch 1; the list has 8, of which 2 stand before it, and 3 at the end of the step
    for (const Action& action : program.devices[0]) {
      if (action.transfer.payload == Payload::activation && action.micro_batch == 1) {
        if (action.kind == ActionKind::send) computed = 0;
        if (action.kind == ActionKind::send_wait) break;
      }
      if (computed >= 0 && !action.is_transfer()) ++computed;
    }
    EXPECT_EQ(computed, std::min(behind, 9));
  }
}

}  // namespace
}  // namespace sluice::parallel
