#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/device_description.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "models/transformer.h"
#include "parallel/plan.h"
#include "parallel/plan/cut.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kBatch = 8;
const AdamW kOptimizer({.lr = 1e-3});

std::vector<DeviceSpeed> speeds_of(const std::vector<DevicePtr>& devices) {
  std::vector<DeviceSpeed> speeds;
  for (const auto& device : devices) speeds.push_back(device->options().speed);
  return speeds;
}

double step_seconds(const layers::Graph& graph, const Plan& plan) {
  const Prediction prediction = predict(graph, plan, kOptimizer, kBatch, speeds_of(plan.devices));
  return prediction.fits ? prediction.step_seconds : std::numeric_limits<double>::infinity();
}

layers::Graph chain(int nodes, std::mt19937& random) {
  layers::Graph graph;
  auto x = graph.input("x", {16});
  const auto label = graph.input("label", {}, DType::i32);
  int64_t width = 16;
  for (int node = 0; node + 1 < nodes; ++node) {
    const auto next = std::uniform_int_distribution<int64_t>(1, 6)(random) * 16;
    x = graph.add(join("node", node), layers::Linear(width, next), x);
    width = next;
  }
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return graph;
}

std::vector<DevicePtr> devices_of(int count, std::mt19937& random) {
  std::vector<DevicePtr> devices;
  for (int i = 0; i < count; ++i) {
    Device::Options options;
    options.speed.flops_per_second = std::uniform_int_distribution(1, 8)(random) * 1e9;
    options.speed.bytes_per_second = std::uniform_int_distribution(1, 8)(random) * 1e9;
    devices.push_back(make_device(join("meta:", i), options));
  }
  return devices;
}

/// What a machine with these devices would measure.
NodeTimer measured(const layers::Graph& graph) {
  return [&graph](int64_t samples, const DevicePtr& device) {
    return counted_nodes(graph, samples, device->options().speed, Precision::f32, kOptimizer);
  };
}

TEST(UnequalDevices, GetTheCutThatIsFastestOfAll) {
  std::mt19937 random(5);
  int uneven = 0;
  for (int instance = 0; instance < 40; ++instance) {
    SCOPED_TRACE(instance);
    const int count = 2 + instance % 2;
    const auto graph = chain(5 + instance % 3, random);
    const auto devices = devices_of(count, random);
    PlanOptions options{.batch = kBatch, .micro_batches = 4, .optimizer = &kOptimizer, .times = measured(graph)};
    const Plan chosen = plan(graph, devices, options);
    EXPECT_TRUE(chosen.is_exact);
    double best = std::numeric_limits<double>::infinity();
    for_each_cut(static_cast<int>(graph.nodes().size()), count, [&](const Partition& partition) {
      options.partition = partition;
      best = std::min(best, step_seconds(graph, plan(graph, devices, options)));
    });
    const auto sizes = chosen.partition.stage_sizes();
    EXPECT_LE(step_seconds(graph, chosen), best * (1 + 1e-9));
    EXPECT_GE(step_seconds(graph, chosen), chosen.bound_seconds * (1 - 1e-9));
    uneven += sizes.front() != sizes.back();
  }
  EXPECT_GT(uneven, 10);
}

TEST(UnequalDevices, OfTwoKindsShareAModelByTheirSpeeds) {
  models::TransformerOptions model;
  model.layers = 16;
  model.dim = 1024;
  model.heads = 16;
  model.vocab = 64;
  model.context = 512;
  const auto graph = models::transformer_lm(model);
  const auto mixed = devices("2x h100,2x a100", {}, DescribedOptions{Precision::bf16});
  EXPECT_EQ(device_kinds(mixed), (std::vector{0, 0, 1, 1}));
  PlanOptions options{.batch = kBatch, .micro_batches = 4, .precision = Precision::bf16, .optimizer = &kOptimizer};
  for (const ScheduleChoice& schedule : {ScheduleChoice(NamedSchedule::one_f_one_b), {NamedSchedule::gpipe}, {kOpen, 1}}) {
    options.schedule = schedule;
    options.partition = kOpen;
    const Plan chosen = plan(graph, mixed, options);
    SCOPED_TRACE(name_of(chosen.schedule));
    const auto sizes = chosen.partition.stage_sizes();
    const auto placement = device_of_stage(chosen);
    int on_fast = 0;
    for (size_t stage = 0; stage < sizes.size(); ++stage) on_fast += placement[stage] < 2 ? sizes[stage] : 0;
    EXPECT_GT(on_fast, static_cast<int>(graph.nodes().size()) * 11 / 20);
    options.partition = PartitionRule::uniform;
    EXPECT_LT(step_seconds(graph, chosen), 0.95 * step_seconds(graph, plan(graph, mixed, options)));
  }
}

TEST(UnequalDevices, KeepToTheirOwnBudgets) {
  std::mt19937 random(9);
  const auto graph = chain(8, random);
  auto devices = devices_of(2, random);
  PlanOptions options{.batch = kBatch, .micro_batches = 4, .optimizer = &kOptimizer};
  const auto peaks = predict(graph, plan(graph, devices, options), kOptimizer, kBatch, {}).devices;
  devices[0]->set_budget_bytes(peaks[0].peak_bytes * 2 / 3);
  const auto prediction = predict(graph, plan(graph, devices, options), kOptimizer, kBatch, {});
  EXPECT_TRUE(prediction.fits) << prediction.reason;
  EXPECT_LE(prediction.devices[0].peak_bytes, peaks[0].peak_bytes * 2 / 3);
}

TEST(UnequalDevices, TakeTheSlowerLinkOfBothEnds) {
  std::mt19937 random(2);
  const auto graph = chain(4, random);
  const auto seconds = [&](double first, double second) {
    Device::Options a, b;
    a.speed.link_latency_seconds = first;
    b.speed.link_latency_seconds = second;
    const std::vector<DevicePtr> both{make_device("meta:0", a), make_device("meta:1", b)};
    return step_seconds(graph, plan(graph, both, {.batch = kBatch, .micro_batches = 2, .optimizer = &kOptimizer}));
  };
  EXPECT_EQ(seconds(1, 0), seconds(0, 1));
  EXPECT_EQ(seconds(1, 0), seconds(1, 1));
  EXPECT_GT(seconds(1, 0), 2);
}

}  // namespace
}  // namespace sluice::parallel
