#include <gtest/gtest.h>

#include <algorithm>

#include "core/cuda/cuda.h"
#include "core/device_speeds.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "parallel/plan/choose.h"

/// Plans for devices that are there, and not only described, are searched at those devices' speeds.
namespace sluice::parallel {
namespace {

constexpr int64_t kBatch = 8;
const AdamW kOptimizer({.lr = 1e-3});

/// Of equal nodes.
layers::Graph chain(int nodes, int64_t width) {
  layers::Graph graph;
  auto x = graph.input("x", {width});
  const auto label = graph.input("label", {}, DType::i32);
  for (int node = 0; node + 1 < nodes; ++node) x = graph.add(join("node", node), layers::Linear(width, width), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return graph;
}

/// A GPU that another machine has: planned as one that is here.
DevicePtr gpu(int index, const char* name, int multiprocessors, double bytes_per_second) {
  GpuDescription description{.name = name, .compute_capability = 90, .multiprocessors = multiprocessors};
  description.clock_hz = 1e9;
  description.bytes_per_second = bytes_per_second;
  Device::Options options;
  options.elsewhere = std::make_shared<const GpuDescription>(std::move(description));
  return std::make_shared<Device>(DeviceKind::cuda, index, options);
}

std::vector<DevicePtr> unlike_gpus() { return {gpu(0, "small", 10, 1e11), gpu(1, "large", 40, 4e11)}; }

PlanOptions options_of(int micro_batches) { return {.batch = kBatch, .micro_batches = micro_batches, .optimizer = &kOptimizer}; }

TEST(NominalSpeeds, GiveTheFasterGpuMoreOfTheModel) {
  const auto gpus = unlike_gpus();
  EXPECT_EQ(device_kinds(gpus), (std::vector{0, 1}));
  const auto sizes = plan(chain(13, 256), gpus, options_of(4)).partition.stage_sizes();
  EXPECT_GT(sizes[1], 2 * sizes[0]);
}

TEST(NominalSpeeds, TellGpusOfOneSpeedApartByTheirNames) {
  EXPECT_EQ(device_kinds({gpu(0, "one", 10, 1e11), gpu(1, "other", 10, 1e11), gpu(2, "one", 10, 1e11)}), (std::vector{0, 1, 0}));
}

TEST(NominalSpeeds, AreThoseOfTheBoundAndOfPredictions) {
  const auto graph = chain(7, 4096);
  for (const auto& devices : {unlike_gpus(), sluice::devices("cpu:0,cpu:1")}) {
    SCOPED_TRACE(devices[0]->name());
    const Plan chosen = plan(graph, devices, options_of(4));
    const double step = predict(graph, chosen, kOptimizer, kBatch, nominal_speeds_of(devices, Precision::f32)).step_seconds;
    EXPECT_GT(chosen.bound_seconds, 0);
    EXPECT_GE(step, chosen.bound_seconds * (1 - 1e-9));
    EXPECT_LT(step, chosen.bound_seconds * 2);
  }
}

TEST(NominalSpeeds, OfCpuDevicesAreTheSameEveryTimeAndGrowWithThreads) {
  const auto one = make_device("cpu:0"), four = make_device("cpu:1", {.threads = 4});
  const DeviceSpeed speed = nominal_speed(*one, Precision::f32);
  EXPECT_EQ(speed, nominal_speed(*one, Precision::f32));
  EXPECT_EQ(nominal_speed(*four, Precision::f32).flops_per_second, 4 * speed.flops_per_second);
  EXPECT_EQ(device_kinds({one, four}), (std::vector{0, 1}));
}

/// Kinds that only the second replica has are asked for; before, the times of all were dropped, or those of two kinds exchanged.
TEST(NominalSpeeds, MeasuredTimesOfReplicasGoToTheirKinds) {
  const auto graph = chain(5, 16);
  const auto small = [](int i) { return gpu(i, "small", 10, 1e11); };
  const auto large = [](int i) { return gpu(i, "large", 40, 4e11); };
  const auto seconds_on = [](const Device& device) { return describe_gpu(device).name == "small" ? 4e-3 : 1e-3; };
  const std::vector<DevicePtr> in_turn{small(0), large(1), small(2), large(3)}, apart{small(0), small(1), large(2), large(3)};
  for (const auto& devices : {in_turn, apart})
    for (const ReplicaDevices which : {ReplicaDevices::together, ReplicaDevices::apart}) {
      PlanOptions options = options_of(4);
      options.replicas = 2;
      options.replica_devices = which;
      options.times = [&](int64_t, const DevicePtr& device) {
        NodeTimes times{};
        times.forward = seconds_on(*device);
        times.backward = 2 * times.forward;
        return std::vector<NodeTimes>(graph.nodes().size(), times);
      };
      const Plan chosen = plan(graph, devices, options);
      const auto firsts = one_of_each_kind(devices);
      ASSERT_EQ(chosen.times.size(), firsts.size());
      for (size_t kind = 0; kind < firsts.size(); ++kind) EXPECT_EQ(chosen.times[kind][0].forward, seconds_on(*firsts[kind]));
    }
}

}  // namespace
}  // namespace sluice::parallel
