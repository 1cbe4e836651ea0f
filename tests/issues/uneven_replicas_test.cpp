#include <gtest/gtest.h>

#include <algorithm>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

const AdamW kOptimizer({.lr = 1e-3});

layers::Graph chain(int64_t width = 16) {
  layers::Graph graph;
  auto x = graph.input("x", {width});
  const auto label = graph.input("label", {}, DType::i32);
  for (int i = 0; i < 8; ++i) x = graph.add(join("linear", i), layers::Linear(width, width), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return graph;
}

/// Of the device that holds most.
int64_t most_bytes(const Prediction& prediction) {
  return std::ranges::max(prediction.devices, {}, &DevicePrediction::peak_bytes).peak_bytes;
}

struct Case {
  int replicas;
  int64_t batch;
  int micro_batches;
};
/// Micro-batches of which some replicas have one more than others.
constexpr Case kUneven[] = {{3, 1000, 4}, {2, 999, 3}, {4, 1000, 6}, {3, 10, 4}, {2, 7, 7}};

std::vector<DevicePtr> devices_of(const Case& one) { return devices(join(one.replicas, "x meta")); }

PlanOptions options_of(const Case& one) {
  return {.batch = one.batch, .micro_batches = one.micro_batches, .replicas = one.replicas, .optimizer = &kOptimizer};
}

/// A share of the samples in a share of the micro-batches, each rounded up, would be smaller ones.
TEST(UnevenReplicas, AreMeasuredWithTheMicroBatchesThatTheyRun) {
  const auto graph = chain();
  for (const Case& one : kUneven) {
    PlanOptions options = options_of(one);
    std::vector<int64_t> asked;
    options.times = [&](int64_t samples, const DevicePtr&) {
      asked.push_back(samples);
      return std::vector<NodeTimes>(graph.nodes().size());
    };
    plan(graph, devices_of(one), options);
    EXPECT_EQ(asked, std::vector{(one.batch + one.micro_batches - 1) / one.micro_batches}) << one.batch << ", " << one.micro_batches;
  }
}

TEST(UnevenReplicas, RecomputeAsMuchAsTheirMicroBatchesAskFor) {
  const auto graph = chain();
  for (const Case& one : {kUneven[0], kUneven[1], kUneven[2]}) {
    const auto devices = devices_of(one);
    PlanOptions options = options_of(one);
    const int64_t most = most_bytes(predict(graph, plan(graph, devices, options), kOptimizer, one.batch, {}));
    for (const auto& device : devices) device->set_budget_bytes(most * 17 / 20);
    options.remat = kOpen;
    const Prediction kept = predict(graph, plan(graph, devices, options), kOptimizer, one.batch, {});
    EXPECT_TRUE(kept.fits) << kept.reason;
  }
}

/// The most bytes of a device without rematerialization, and with all of it.
std::pair<int64_t, int64_t> peaks_of(const layers::Graph& graph, const std::vector<DevicePtr>& devices, PlanOptions options) {
  const auto peak = [&](Remat remat) {
    options.remat = remat;
    return most_bytes(predict(graph, plan(graph, devices, options), kOptimizer, options.batch, {}));
  };
  return {peak(Remat::none), peak(Remat::full)};
}

const PlanOptions kTwoReplicas{.batch = 4096, .micro_batches = 8, .remat = kOpen, .replicas = 2, .optimizer = &kOptimizer};

void expect_fits(const layers::Graph& graph, const std::vector<DevicePtr>& devices) {
  const Prediction kept = predict(graph, plan(graph, devices, kTwoReplicas), kOptimizer, kTwoReplicas.batch, {});
  EXPECT_TRUE(kept.fits) << kept.reason;
}

/// What the replicas exchange is beside what one pipeline holds: where the budget has no room for both, more is recomputed.
TEST(ReplicasWithTightBudgets, RecomputeForTheRoomOfTheirExchange) {
  const auto graph = chain(64);
  for (const int count : {2, 4}) {
    const auto devices = sluice::devices(join(count, "x meta"));
    const auto [most, least] = peaks_of(graph, devices, kTwoReplicas);
    for (int part = 0; part <= 12; ++part) {
      for (const auto& device : devices) device->set_budget_bytes(most - (most - least) * part / 12);
      expect_fits(graph, devices);
    }
  }
}

/// The plan of the first replica is that of all, also where it is another one that has little room.
TEST(ReplicasWithTightBudgets, RecomputeForTheRoomOfAnotherReplica) {
  const auto graph = chain(64);
  const auto devices = sluice::devices("4x meta");
  const auto [most, least] = peaks_of(graph, devices, kTwoReplicas);
  ASSERT_LT(least, most);
  for (const int64_t of_first : {2 * most, kUnlimited}) {
    for (size_t device = 0; device < devices.size(); ++device)
      devices[device]->set_budget_bytes(device < 2 ? of_first : (most + least) / 2);
    expect_fits(graph, devices);
  }
}

TEST(UnevenReplicas, AreRefusedInTheNumbersOfTheUser) {
  const auto graph = chain();
  const auto devices = sluice::devices("4x meta");
  const Schedule own = make_schedule(NamedSchedule::gpipe, 2, 4);
  for (const int number : {6, 7})
    expect_error<UsageError>(
        [&] { plan(graph, devices, {.batch = 16, .micro_batches = number, .schedule = own, .replicas = 2}); },
        {"PlanOptions::micro_batches: needs 8, as schedule gpipe is for 4 of each of the 2 replicas", join("got ", number)});
  for (const CountChoice number : {CountChoice(8), CountChoice(kOpen)})
    expect_error<UsageError>([&] { plan(graph, devices, {.batch = 7, .micro_batches = number, .schedule = own, .replicas = 2}); },
                             {"PlanOptions::batch: needs at least 8 samples", "got 7"});
  expect_error<UsageError>([&] { plan(graph, devices, {.batch = 5, .micro_batches = 8, .replicas = 2}); },
                           {"PlanOptions::micro_batches: needs a number from 1 to the 5 samples", "got 8"});
  EXPECT_EQ(plan(graph, devices, {.batch = 16, .micro_batches = kOpen, .schedule = own, .replicas = 2}).micro_batches, 8);
}

}  // namespace
}  // namespace sluice::parallel
