#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "parallel/plan/cut.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kBatch = 4;
constexpr double kRounding = 1e-9;
const AdamW kOptimizer({.lr = 1e-3});

class Instances {
 public:
  explicit Instances(unsigned seed) : random_(seed) {}

  int pick(int least, int end) { return std::uniform_int_distribution(least, end - 1)(random_); }

  /// Linear layers, one after another; with `skips` also sums over what was made two or more nodes before.
  layers::Graph graph(int nodes, bool skips) {
    layers::Graph graph;
    std::vector<layers::Value> values{graph.input("x", {8})};
    const auto label = graph.input("label", {}, DType::i32);
    for (int node = 0; node + 1 < nodes; ++node) {
      const auto from = skips && pick(0, 2) == 0 ? values[pick(0, static_cast<int>(values.size()))] : values.back();
      const std::string name = join("node", node);
      if (skips && pick(0, 3) == 0)
        values.push_back(graph.add(name, testing::Sum(), {from, values.back()}));
      else
        values.push_back(graph.add(name, layers::Linear(8, 8), from));
    }
    auto all = values.back();
    if (skips) {  // whatever nobody reads
      for (size_t i = 1; i + 1 < values.size(); ++i) all = graph.add(join("join", i), testing::Sum(), {all, values[i]});
    }
    graph.loss(graph.add("loss", layers::CrossEntropy(), {all, label}));
    return graph;
  }

  /// As a noisy machine measures: B may be less than I, W nothing, and equal layers differ.
  std::vector<NodeTimes> measured(size_t nodes) {
    std::vector<NodeTimes> times(nodes);
    for (NodeTimes& node : times)
      for (const auto part : {&NodeTimes::forward, &NodeTimes::backward, &NodeTimes::input_gradient, &NodeTimes::weight_gradient,
                              &NodeTimes::recompute, &NodeTimes::step})
        node.*part = pick(0, 5) == 0 ? 0 : pick(1, 40) / 8.0;
    return times;
  }

 private:
  std::mt19937 random_;
};

PlanOptions options_of(NamedSchedule schedule, Remat remat = Remat::none) {
  return {.batch = kBatch, .micro_batches = kOpen, .schedule = schedule, .remat = remat, .optimizer = &kOptimizer};
}

/// Every cut with every number of micro-batches from which plan() chooses.
template <class Visit>
void for_all_plans(const layers::Graph& graph, const std::vector<DevicePtr>& devices, PlanOptions options, Visit visit) {
  const int count = static_cast<int>(devices.size());
  for (const int number : {1, 2, 3, 4}) {
    if (number == 3 && count != 3) continue;
    options.micro_batches = number;
    for_each_cut(static_cast<int>(graph.nodes().size()), count, [&](const Partition& partition) {
      options.partition = partition;
      visit(predict(graph, plan(graph, devices, options), kOptimizer, kBatch, devices[0]->options().speed));
    });
  }
}

/// Budgets that some plan keeps to exactly, by the bytes that are counted: what is estimated may be more.
void set_budgets(const std::vector<DevicePtr>& devices, const std::vector<Prediction>& plans, Instances& instances) {
  const Prediction& kept = plans[instances.pick(0, static_cast<int>(plans.size()))];
  for (size_t i = 0; i < devices.size(); ++i) devices[i]->set_budget_bytes(kept.devices[i].peak_bytes);
}

TEST(ClaimsOfPlans, AreTrueOfCountedBytesAndMeasuredTimes) {
  Instances instances(7);
  int claims = 0, refusals = 0;
  for (int instance = 0; instance < 60; ++instance) {
    SCOPED_TRACE(instance);
    const int count = instances.pick(2, 4);
    const auto graph = instances.graph(instances.pick(count + 1, 6), false);
    const auto devices = sluice::devices(join(count, "x meta"));
    const auto times = instances.measured(graph.nodes().size());
    PlanOptions options = options_of(instances.pick(0, 2) ? NamedSchedule::one_f_one_b : NamedSchedule::zb_h1,
                                     instances.pick(0, 3) ? Remat::none : Remat::full);
    options.times = [&](int64_t, const DevicePtr&) { return times; };
    std::vector<Prediction> all;
    for_all_plans(graph, devices, options, [&](const Prediction& prediction) { all.push_back(prediction); });
    if (instances.pick(0, 2) == 0) set_budgets(devices, all, instances);
    const Plan chosen = plan(graph, devices, options);
    double best = std::numeric_limits<double>::infinity();
    for (const Prediction& prediction : all) {
      EXPECT_GE(prediction.step_seconds, chosen.bound_seconds * (1 - kRounding));
      bool fits = true;
      for (size_t i = 0; i < devices.size(); ++i) fits = fits && prediction.devices[i].peak_bytes <= devices[i]->budget_bytes();
      if (fits) best = std::min(best, prediction.step_seconds);
    }
    const Prediction predicted = predict(graph, chosen, kOptimizer, kBatch, {});
    if (chosen.is_exact) {
      EXPECT_TRUE(predicted.fits);
      EXPECT_LE(predicted.step_seconds, best * (1 + kRounding));
    }
    ++(chosen.is_exact ? claims : refusals);
  }
  EXPECT_GE(claims, 10);
  EXPECT_GE(refusals, 1);
}

TEST(ClaimsOfPlans, AreNotMadeOfAPlanThatDoesNotFit) {
  Instances instances(3);
  const auto graph = instances.graph(5, false);
  const auto devices = sluice::devices("2x meta");
  for (const auto& device : devices) device->set_budget_bytes(64);
  PlanOptions options = options_of(NamedSchedule::one_f_one_b);
  const Plan chosen = plan(graph, devices, options);
  EXPECT_FALSE(predict(graph, chosen, kOptimizer, kBatch, {}).fits);
  EXPECT_FALSE(chosen.is_exact);
  for (const auto& device : devices) device->set_budget_bytes(kUnlimited);
  EXPECT_EQ(chosen.bound_seconds, plan(graph, devices, options).bound_seconds) << "of all that may be chosen, not of what needs least";
}

/// Ten samples in eight micro-batches are ten, though the largest of those has two.
TEST(ClaimsOfPlans, HaveABoundThatHoldsForUnevenMicroBatches) {
  Instances instances(5);
  for (int instance = 0; instance < 10; ++instance) {
    SCOPED_TRACE(instance);
    const auto graph = instances.graph(instances.pick(4, 7), false);
    const auto devices = sluice::devices("2x meta");
    PlanOptions options = options_of(NamedSchedule::one_f_one_b);
    options.batch = 10;
    for (const CountChoice number : {CountChoice(8), CountChoice(3), CountChoice(5), CountChoice(kOpen)}) {
      options.micro_batches = number;
      const Plan chosen = plan(graph, devices, options);
      EXPECT_GT(chosen.bound_seconds, 0);
      EXPECT_GE(predict(graph, chosen, kOptimizer, 10, devices[0]->options().speed).step_seconds, chosen.bound_seconds * (1 - kRounding));
      const bool is_even = number.given() && 10 % *number.given() == 0;
      EXPECT_TRUE(is_even || !chosen.is_exact);
    }
  }
}

/// Branches run at the same time on several devices, which a chain of stages cannot show.
TEST(ClaimsOfPlans, HaveABoundThatNoPlanOfAGraphWithBranchesBeats) {
  Instances instances(11);
  for (int instance = 0; instance < 30; ++instance) {
    SCOPED_TRACE(instance);
    const int count = instances.pick(1, 4);
    const auto graph = instances.graph(instances.pick(3, 5), true);
    const auto devices = sluice::devices(join(count, "x meta"));
    const auto times = instances.measured(graph.nodes().size());
    PlanOptions options = options_of(instances.pick(0, 2) ? NamedSchedule::gpipe : NamedSchedule::zb_h1);
    const bool is_measured = instances.pick(0, 2) == 0;
    if (is_measured) options.times = [&](int64_t, const DevicePtr&) { return times; };
    const Plan chosen = plan(graph, devices, options);
    EXPECT_TRUE(count == 1 || !chosen.is_exact);
    for_all_plans(graph, devices, options,
                  [&](const Prediction& prediction) { EXPECT_GE(prediction.step_seconds, chosen.bound_seconds * (1 - kRounding)); });
  }
}

}  // namespace
}  // namespace sluice::parallel
