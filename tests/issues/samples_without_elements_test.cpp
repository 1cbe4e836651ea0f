// Samples on a meta device, and samples in memory for a trainer over meta devices, were told of constants of the model and not of the input.
#include <gtest/gtest.h>

#include "parallel/plan.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/training/point_classifier.h"

namespace sluice::parallel {
namespace {

/// A step over `names` with samples on another device.
void step_over(const char* names, const DevicePtr& samples) {
  const layers::Graph graph = training::point_classifier();
  Trainer trainer(graph, plan(graph, devices(names), {.batch = 4, .micro_batches = 2}), SGD({}));
  trainer.step(batch_of({{"x", zeros({4, 4}, DType::f32, samples)}, {"label", zeros({4}, DType::i32, samples)}}));
}

TEST(SamplesWithoutElements, AreRefusedByDevicesThatCompute) {
  expect_error<UsageError>([] { step_over("cpu:0", make_device("meta:0")); },
                           {"batch: input '", "in memory", "cpu:0 computes", "on meta:0"});
}

TEST(SamplesWithoutElements, AreWhatDevicesThatCountNeed) {
  expect_error<UsageError>([] { step_over("meta:0", default_device()); },
                           {"batch: input '", "on a meta device", "meta:0 only counts", "on cpu:0", "parallel::predict"});
  EXPECT_NO_THROW(step_over("meta:0", make_device("meta:0")));
}

}  // namespace
}  // namespace sluice::parallel
