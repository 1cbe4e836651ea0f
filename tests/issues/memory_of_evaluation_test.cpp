// An evaluation that did not fit its device showed that after hours of training: nothing had planned it.
#include <gtest/gtest.h>

#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 60;

TEST(TheMemoryOfAnEvaluation, IsPredictedToTheByteAndHeldAgainstTheBudget) {
  const auto graph = skip_graph();
  const AdamW optimizer({.lr = 1e-2});
  for (const char* names : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2"})
    for (const bool with_output : {false, true}) {
      const Plan chosen = plan(graph, devices(names), {.batch = kSamples, .micro_batches = 4, .partition = PartitionRule::uniform});
      const Prediction predicted = predict_evaluation(graph, chosen, optimizer, kSamples, with_output);
      ASSERT_TRUE(predicted.fits);
      Trainer trainer(graph, chosen, optimizer);
      trainer.evaluate(skip_batch(kSamples, 1), with_output);
      for (size_t i = 0; i < chosen.devices.size(); ++i)
        EXPECT_EQ(predicted.devices[i].peak_bytes, chosen.devices[i]->peak_bytes()) << names << ", output kept: " << with_output;

      Plan tight = chosen;
      tight.devices = devices(names, {.budget_bytes = predicted.devices.back().peak_bytes - 1});
      const Prediction refused = predict_evaluation(graph, tight, optimizer, kSamples, with_output);
      EXPECT_FALSE(refused.fits);
      EXPECT_NE(refused.reason.find("lacks"), std::string::npos) << refused.reason;
    }
}

}  // namespace
}  // namespace sluice::parallel
