// How early receives are posted is a plan's to choose: as early as makes the step shorter, and as the budgets allow.
#include <gtest/gtest.h>

#include "parallel/plan.h"
#include "parallel/trainer.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 64, kMicroBatches = 16;

/// Devices on which a transfer takes as long as many actions.
std::vector<DevicePtr> far_devices(int count, int64_t budget = kUnlimited) {
  std::vector<DevicePtr> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back(make_device(
        join("meta:", i),
        {.budget_bytes = budget,
         .speed = {.flops_per_second = 1e9, .bytes_per_second = 1e9, .link_bytes_per_second = 1e9, .link_latency_seconds = 2e-5}}));
  return devices;
}

class TransferWindows : public ::testing::Test {
 protected:
  Plan plan_on(std::vector<DevicePtr> devices) const {
    return plan(graph_, std::move(devices),
                {.batch = kSamples, .micro_batches = kMicroBatches, .partition = kOpen, .optimizer = &optimizer_});
  }
  Prediction predicted(const Plan& plan) const { return predict(graph_, plan, optimizer_, kSamples, plan.devices[0]->options().speed); }

  layers::Graph graph_ = skip_graph();
  AdamW optimizer_{{.lr = 1e-2}};
};

TEST_F(TransferWindows, AreWideWhereTransfersTakeLongAndNarrowWhereTheyDoNot) {
  Plan chosen = plan_on(far_devices(3));
  EXPECT_GT(chosen.window.ahead, 1);
  const double wide = predicted(chosen).step_seconds;
  chosen.window = {};
  EXPECT_LT(wide, 0.99 * predicted(chosen).step_seconds);
  EXPECT_EQ(plan_on({make_device("meta:0"), make_device("meta:1")}).window, TransferWindow{}) << "over links that take no time";
}

TEST_F(TransferWindows, AreAsWideAsTheBudgetsAllow) {
  Plan wide = plan_on(far_devices(3)), narrow = wide;
  narrow.window = {};
  const auto most = [&](const Plan& plan) {
    int64_t bytes = 0;
    for (const auto& device : predicted(plan).devices) bytes = std::max(bytes, device.peak_bytes);
    return bytes;
  };
  ASSERT_GT(most(wide), most(narrow));
  const Plan tight = plan_on(far_devices(3, most(wide) - 1));
  EXPECT_LT(tight.window.ahead, wide.window.ahead);
  EXPECT_TRUE(predicted(tight).fits);
}

TEST_F(TransferWindows, DoNotChangeTheWeights) {
  std::string hash;
  for (const TransferWindow& window : {TransferWindow{}, TransferWindow{0, 0}, TransferWindow{3, 0}, TransferWindow{0, 3}, kOpenWindow}) {
    Plan chosen = plan(graph_, devices("cpu:0,cpu:1,cpu:2"), {.batch = kSamples, .micro_batches = kMicroBatches, .optimizer = &optimizer_});
    chosen.window = window;
    Trainer trainer(graph_, chosen, optimizer_, {.seed = 3, .timeout_seconds = 60});
    for (uint64_t step = 0; step < 3; ++step) trainer.step(skip_batch(kSamples, step));
    if (hash.empty()) hash = trainer.weights_hash();
    EXPECT_EQ(trainer.weights_hash(), hash) << window.ahead << " ahead, " << window.behind << " behind";
  }
}

}  // namespace
}  // namespace sluice::parallel
