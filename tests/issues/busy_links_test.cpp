// A link carries one transfer at a time. On devices that only count, transfers of one link once overlapped, so that a step over a slow line
// was predicted shorter than its transfers take one after the other.
#include <gtest/gtest.h>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"

namespace sluice::parallel {
namespace {

TEST(BusyLinks, MakeAStepAsLongAsTheirTransfersOneAfterTheOther) {
  constexpr int kMicroBatches = 8;
  constexpr int64_t kWidth = 64;
  layers::Graph graph;
  const auto x = graph.input("x", {8}), label = graph.input("label", {}, DType::i32);
  auto h = graph.add("first", layers::Linear(8, kWidth), x);
  h = graph.add("second", layers::Linear(kWidth, 5), h);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {h, label}));
  Device::Options options;
  options.speed = {.flops_per_second = 1e15, .bytes_per_second = 1e15, .link_bytes_per_second = kWidth * 4};  // a second a sample
  const std::vector<DevicePtr> devices{make_device("meta:0", options), make_device("meta:1", options)};
  const AdamW optimizer({.lr = 1e-3});
  Plan plan;
  plan.devices = devices;
  plan.partition = Partition{{1, 2}};
  plan.micro_batches = kMicroBatches;
  plan.rematerialize.assign(3, false);
  const double seconds = predict(graph, plan, optimizer, kMicroBatches, options.speed).step_seconds;
  EXPECT_GE(seconds, kMicroBatches + 1) << "all activations, and at least the last gradient back";
}

}  // namespace
}  // namespace sluice::parallel
