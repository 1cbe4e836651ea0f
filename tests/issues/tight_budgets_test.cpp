#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/device_description.h"
#include "layers/activation.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "models/resnet.h"
#include "models/transformer.h"
#include "parallel/plan.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/cut.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/node_bytes.h"

namespace sluice::parallel {
namespace {

const AdamW kOptimizer({.lr = 1e-3});

/// Linear layers of these widths.
layers::Graph chain(const std::vector<int64_t>& widths) {
  layers::Graph graph;
  auto x = graph.input("x", {widths[0]});
  const auto label = graph.input("label", {}, DType::i32);
  for (size_t i = 0; i + 1 < widths.size(); ++i) x = graph.add(join("linear", i), layers::Linear(widths[i], widths[i + 1]), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return graph;
}

layers::Graph random_chain(std::mt19937& random, int layers = 5) {
  std::vector<int64_t> widths;
  for (int i = 0; i <= layers; ++i) widths.push_back(16 * std::uniform_int_distribution<int64_t>(1, 20)(random));
  return chain(widths);
}

Prediction predicted(const layers::Graph& graph, const Plan& plan, int64_t batch) { return predict(graph, plan, kOptimizer, batch, {}); }

/// The first gradient of a parameter becomes the sum, so that a step of one micro-batch never holds both.
TEST(TightBudgets, HoldTheOneMicroBatchThatNeedsLeast) {
  const auto graph = chain({256, 256, 256, 256});
  const auto devices = sluice::devices("meta:0");
  for (const Remat remat : {Remat::none, Remat::full}) {
    PlanOptions options{.batch = 8, .micro_batches = 1, .remat = remat, .optimizer = &kOptimizer};
    const int64_t whole = predicted(graph, plan(graph, devices, options), 8).devices[0].peak_bytes;
    options.micro_batches = 8;
    ASSERT_LT(whole, predicted(graph, plan(graph, devices, options), 8).devices[0].peak_bytes);
    options.micro_batches = kOpen;
    devices[0]->set_budget_bytes(whole);
    const Plan chosen = plan(graph, devices, options);
    EXPECT_TRUE(predicted(graph, chosen, 8).fits);
    EXPECT_EQ(chosen.micro_batches, 1);
    devices[0]->set_budget_bytes(kUnlimited);
  }
}

/// Holds what the search estimates of one device against what is counted.
void expect_near_estimates(const std::string& device, double share) {
  std::mt19937 random(3);
  for (int instance = 0; instance < 10; ++instance) {
    const auto graph = random_chain(random);
    const auto devices = sluice::devices(device);
    const ModelCosts costs{{model_bytes(graph, 16, Precision::f32, devices[0]->backend(), kOptimizer)}};
    for (const NamedSchedule name : {NamedSchedule::one_f_one_b, NamedSchedule::zb_h1})
      for (const int micro_batches : {1, 2, 4}) {
        const Plan made =
            plan(graph, devices, {.batch = 16 * micro_batches, .micro_batches = micro_batches, .schedule = name, .optimizer = &kOptimizer});
        const Schedule schedule = schedule_of(made, micro_batches);
        const auto stages = stage_costs(topology_of(graph), costs, made.partition.segments(), schedule.device_of_stage, made.rematerialize);
        const auto counted = static_cast<double>(counted_peak_bytes(graph, made, kOptimizer, 16 * micro_batches)[0]);
        EXPECT_NEAR(static_cast<double>(costs.any().own_bytes + device_peak_bytes(schedule, stages, 0)), counted, share * counted)
            << name_of(name) << ", " << micro_batches;
      }
  }
}

TEST(TightBudgets, AreEstimatedWithoutGradientsThatAreNotThereYet) { expect_near_estimates("meta:0", 0.1); }

/// A GPU's workspace is there once, and not with what each node keeps from I to W.
TEST(TightBudgets, OfGpusHaveTheirWorkspaceOnce) { expect_near_estimates("1x h100", 0.02); }

/// Those of any cut, though the search's estimate of it is above them, or that of another one below.
TEST(TightBudgets, OfAnyCutAreKept) {
  std::mt19937 random(1);
  for (int instance = 0; instance < 20; ++instance) {
    const auto graph = random_chain(random);
    const auto devices = sluice::devices("2x meta");
    const Remat remat = instance % 2 == 0 ? Remat::none : Remat::full;
    PlanOptions options{.batch = 50, .micro_batches = 1 + instance % 5, .remat = remat, .optimizer = &kOptimizer};
    for_each_cut(static_cast<int>(graph.nodes().size()), 2, [&](const Partition& cut) {
      options.partition = cut;
      const auto kept = predicted(graph, plan(graph, devices, options), 50).devices;
      for (size_t i = 0; i < devices.size(); ++i) devices[i]->set_budget_bytes(kept[i].peak_bytes);
      options.partition = kOpen;
      EXPECT_TRUE(predicted(graph, plan(graph, devices, options), 50).fits) << "instance " << instance;
      for (const auto& device : devices) device->set_budget_bytes(kUnlimited);
    });
  }
}

/// Backwards of blocks with skip connections are estimated too high, and those of every cut by something else: a plan that was counted and
/// does not fit must not be all that is found.
TEST(TightBudgets, OfGraphsWithSkipConnectionsAreKept) {
  const auto graph = models::resnet({.blocks = {1, 1, 2, 1}, .filters = 8, .classes = 10, .image_size = 32});
  const auto devices = sluice::devices("2x meta");
  for (const Remat remat : {Remat::none, Remat::full})
    for (const int micro_batches : {1, 4}) {
      PlanOptions options{.batch = 16,
                          .micro_batches = micro_batches,
                          .schedule = NamedSchedule::zb_h1,
                          .remat = remat,
                          .precision = Precision::bf16,
                          .optimizer = &kOptimizer};
      for_each_cut(static_cast<int>(graph.nodes().size()), 2, [&](const Partition& cut) {
        options.partition = cut;
        const auto kept = predicted(graph, plan(graph, devices, options), 16).devices;
        for (size_t i = 0; i < devices.size(); ++i) devices[i]->set_budget_bytes(kept[i].peak_bytes);
        options.partition = kOpen;
        EXPECT_TRUE(predicted(graph, plan(graph, devices, options), 16).fits) << cut.sizes[0] << " nodes on the first device";
        for (const auto& device : devices) device->set_budget_bytes(kUnlimited);
      });
    }
}

/// Those of any cut with any nodes recomputed, on devices of two kinds that have bytes of their own too, though the search's estimate is above
/// them and other plans, which are faster by the estimate, pass them.
TEST(TightBudgets, OfAnyRecomputationAreKept) {
  std::mt19937 random(5);
  const auto pick = [&](int least, int end) { return std::uniform_int_distribution(least, end - 1)(random); };
  for (int instance = 0; instance < 12; ++instance) {
    const auto graph = random_chain(random);
    const int nodes = static_cast<int>(graph.nodes().size()), batch = 48;
    const auto devices = instance % 2 == 0 ? sluice::devices("3x meta") : sluice::devices("1x h100,1x a100,1x a100", {}, {});
    PlanOptions options{.batch = batch,
                        .micro_batches = std::vector{1, 2, 8}[pick(0, 3)],
                        .schedule = std::vector{NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1}[instance % 3],
                        .optimizer = &kOptimizer};
    for_each_cut(nodes, 3, [&](const Partition& cut) {
      options.partition = cut;
      options.remat = Remat::none;
      Plan made = plan(graph, devices, options);
      for (int node = 0; node < nodes; ++node) made.rematerialize[node] = pick(0, 2) == 0;
      const auto kept = predicted(graph, made, batch).devices;
      for (size_t i = 0; i < devices.size(); ++i) devices[i]->set_budget_bytes(kept[i].peak_bytes);
      options.partition = kOpen;
      options.remat = kOpen;
      EXPECT_TRUE(predicted(graph, plan(graph, devices, options), batch).fits) << "instance " << instance;
      for (const auto& device : devices) device->set_budget_bytes(kUnlimited);
    });
  }
}

/// A device without a budget recomputes nothing that makes the step longer, however few bytes another one has.
TEST(TightBudgets, OfOneDeviceLeaveOthersUnlimited) {
  std::mt19937 random(7);
  for (int instance = 0; instance < 10; ++instance) {
    const auto graph = random_chain(random, 12);
    const auto devices = sluice::devices("2x meta");
    for (const NamedSchedule name : {NamedSchedule::one_f_one_b, NamedSchedule::zb_h1}) {
      PlanOptions options{.batch = 48, .micro_batches = 8, .schedule = name, .remat = Remat::full, .optimizer = &kOptimizer};
      const auto kept = predicted(graph, plan(graph, devices, options), 48).devices;
      options.remat = kOpen;
      for (size_t bounded = 0; bounded < 2; ++bounded) {
        devices[bounded]->set_budget_bytes(kept[bounded].peak_bytes);
        const Plan chosen = plan(graph, devices, options);
        EXPECT_TRUE(predicted(graph, chosen, 48).fits) << "instance " << instance;
        const Partition stages{chosen.partition.stage_sizes()};
        const int free_stage = bounded == 0 ? 1 : 0;
        Plan without = chosen;
        for (int node = stages.first_node(free_stage); node < stages.end_node(free_stage); ++node) without.rematerialize[node] = false;
        EXPECT_LE(predicted(graph, chosen, 48).step_seconds, predicted(graph, without, 48).step_seconds) << "instance " << instance;
        devices[bounded]->set_budget_bytes(kUnlimited);
      }
    }
  }
}

/// The estimate of an order's bytes may be so much too high that what it recomputes makes it slower than another one: it is counted all the same.
TEST(TightBudgets, LeaveTheFasterOrderWhoseBytesAreEstimatedTooHigh) {
  const auto graph = models::transformer_lm({.layers = 12, .dim = 768, .heads = 12, .vocab = 50257, .context = 1024, .dropout = 0.1});
  const auto devices = sluice::devices("4x h100");
  PlanOptions options{.batch = 8, .micro_batches = 8, .partition = Partition{{11, 14, 13, 2}}, .remat = kOpen, .optimizer = &kOptimizer};
  for (int64_t budget = 1'100'000'000; budget < 1'500'000'000; budget += 25'000'000) {
    for (const auto& device : devices) device->set_budget_bytes(budget);
    options.schedule = NamedSchedule::zb_h1;
    const auto named = predicted(graph, plan(graph, devices, options), 8);
    options.schedule = kOpen;
    const auto open = predicted(graph, plan(graph, devices, options), 8);
    if (!named.fits) continue;
    EXPECT_TRUE(open.fits) << budget;
    EXPECT_LE(open.step_seconds, named.step_seconds) << budget;
  }
}

/// What does not fit is told of with the plan that lacks least, which need not be that of the most micro-batches.
TEST(TightBudgets, ThatNoPlanKeepsToShowTheNearestOne) {
  const auto graph = chain({256, 256, 256, 256});
  const auto devices = sluice::devices("meta:0");
  PlanOptions options{.batch = 8, .optimizer = &kOptimizer};
  const int64_t whole = predicted(graph, plan(graph, devices, options), 8).devices[0].peak_bytes;
  options.micro_batches = kOpen;
  devices[0]->set_budget_bytes(whole - 64);
  const Plan nearest = plan(graph, devices, options);
  EXPECT_FALSE(predicted(graph, nearest, 8).fits);
  EXPECT_EQ(predicted(graph, nearest, 8).devices[0].peak_bytes, whole);
  devices[0]->set_budget_bytes(kUnlimited);
  EXPECT_EQ(nearest.bound_seconds, plan(graph, devices, options).bound_seconds);
}

}  // namespace
}  // namespace sluice::parallel
