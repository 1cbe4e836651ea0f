#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/program/simulate.h"
#include "parallel/program/verify.h"
#include "parallel/schedule/named.h"
#include "parallel/schedule/search.h"
#include "tests/schedule/example_plans.h"

/// The closed formulas of docs/schedules.md, against the simulator and the search: chains of stages of equal cost, transfers that take no time.
namespace sluice::parallel {
namespace {

/// Seconds a device and micro-batch, over all stages of the device.
struct Seconds {
  double f = 1, i = 1, w = 1, r = 0;
  double b() const { return i + w; }
};

/// One micro-batch leaves this many bytes on each device: divisible by 2, 3 and 4 stages.
constexpr double kActivation = 12;

struct Result {
  Timeline timeline;
  std::vector<double> activations;  ///< by device: the most held, in micro-batches of one device's share
  double bubble(int micro_batches, const Seconds& s) const { return timeline.seconds - micro_batches * (s.r + s.f + s.b()); }
};

Result simulated(std::string_view name, int devices, int micro_batches, int virtual_stages, const Seconds& seconds) {
  const Schedule schedule = make_schedule(schedule_named(name), devices, micro_batches, virtual_stages);
  const int stages = schedule.stage_count(), each = stages / devices;
  const Topology topology = chain_topology(stages);
  const Program program = lower(topology, partition_uniform(stages, stages), schedule, std::vector<bool>(stages, seconds.r > 0));
  require_valid(topology, program);
  SimulationCosts costs;
  costs.forward.assign(stages, seconds.f / each);
  costs.backward.assign(stages, seconds.b() / each);
  costs.input_gradient.assign(stages, seconds.i / each);
  costs.weight_gradient.assign(stages, seconds.w / each);
  costs.recompute.assign(stages, seconds.r / each);
  Result result{simulate(program, costs), {}};
  const std::vector<double> kept(stages, kActivation / each);
  const ScheduleTiming timing = time_schedule(
      schedule, {costs.forward, costs.backward, costs.input_gradient, costs.weight_gradient, costs.recompute, {}, kept, kept});
  EXPECT_NEAR(timing.seconds, result.timeline.seconds, 1e-9) << name << ", p " << devices << ", M " << micro_batches;
  for (const double peak : timing.peak_bytes) result.activations.push_back(peak / kActivation);
  return result;
}

void expect_near(double found, double wanted, std::string_view what, int p, int m) {
  EXPECT_NEAR(found, wanted, 1e-9) << what << ", p " << p << ", M " << m;
}

class Formula : public testing::TestWithParam<int> {};

TEST_P(Formula, GPipeIdlesForItsFillAndDrainAndKeepsEveryMicroBatch) {
  const int p = GetParam();
  const Seconds s{1, 1.25, 0.5};
  for (int m = 1; m <= 3 * p; ++m) {
    const Result found = simulated("gpipe", p, m, 1, s);
    expect_near(found.bubble(m, s), (p - 1) * (s.f + s.b()), "bubble", p, m);
    expect_near(found.timeline.bubble, (p - 1.0) / (m + p - 1), "share", p, m);
    for (double peak : found.activations) expect_near(peak, m, "peak", p, m);
  }
}

// R stands before the receipt of the gradient, so each stage but the last recomputes while it waits.
TEST_P(Formula, GPipeWithEarlyRecomputationIdlesNoLonger) {
  const int p = GetParam();
  const Seconds s{1, 1, 1, 1};
  for (int m = 1; m <= 3 * p; ++m) expect_near(simulated("gpipe", p, m, 1, s).bubble(m, s), (p - 1) * (s.f + s.b()), "bubble", p, m);
}

TEST_P(Formula, GPipeWithLateRecomputationIdlesForItAsWell) {
  const int p = GetParam();
  const Seconds s{1, 1, 1, 1}, late{1, 1 + s.r, 1};  // R within B
  for (int m = 1; m <= 3 * p; ++m)
    expect_near(simulated("gpipe", p, m, 1, late).bubble(m, late), (p - 1) * (2 * s.f + s.b()), "bubble", p, m);
}

TEST_P(Formula, OneFOneBIdlesAsGPipeAndKeepsAsManyMicroBatchesAsStagesAreBehind) {
  const int p = GetParam();
  const Seconds s{1, 1.25, 0.5};
  for (int m = 1; m <= 3 * p; ++m) {
    const Result found = simulated("1f1b", p, m, 1, s);
    expect_near(found.bubble(m, s), (p - 1) * (s.f + s.b()), "bubble", p, m);
    for (int d = 0; d < p; ++d) expect_near(found.activations[d], std::min(p - d, m), "peak", p, m);
  }
}

TEST_P(Formula, InterleavingDividesTheBubbleByTheStagesOfADevice) {
  const int p = GetParam();
  const Seconds s{1, 1.25, 0.5};
  for (const int v : {2, 3})
    for (int m = p; m <= 4 * p; m += p) {
      const Result found = simulated("interleaved", p, m, v, s);
      expect_near(found.bubble(m, s), (p - 1) * (s.f + s.b()) / v, "bubble", p, m);
      expect_near(found.activations[0], m == p ? p : p * (1 + (p - 1.0) / (p * v)), "peak", p, m);
      EXPECT_EQ(found.activations[0], *std::max_element(found.activations.begin(), found.activations.end()));
    }
}

TEST_P(Formula, ZbH1FillsItsDrainWithWeightGradientsInTheMemoryOfTheFirstStageOf1F1B) {
  const int p = GetParam();
  for (const Seconds& s : {Seconds{1, 1, 1}, Seconds{1, 1.2, 1}, Seconds{2, 2, 2}, Seconds{1.5, 2, 1}})
    for (int m = 2 * p; m <= 5 * p; ++m) {
      const Result found = simulated("zb-h1", p, m, 1, s);
      expect_near(found.bubble(m, s), (p - 1) * (s.f + s.i - s.w), "bubble", p, m);
      for (double peak : found.activations) EXPECT_LE(peak, p);
    }
}

TEST_P(Formula, ZbVIdlesForHalfAForwardAStageWithoutAnyGapBetween) {
  const int p = GetParam();
  for (int m = 2 * p - 1; m <= 5 * p; ++m) {
    const Result found = simulated("zb-v", p, m, 2, {});
    expect_near(found.bubble(m, {}), (p - 1) / 2.0, "bubble", p, m);
    expect_near(found.timeline.span_bubble, 0, "span", p, m);
    for (double peak : found.activations) expect_near(peak, p, "peak", p, m);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Formula, testing::Values(2, 4, 8), testing::PrintToStringParamName());

/// The numbers that an independent simulation gave for F = I = W = 1.
TEST(FormulaCheck, GivesTheKnownBubblesAndPeaks) {
  struct Known {
    std::string_view name;
    int virtual_stages;
    double bubble4, bubble8, peak4, peak8;
  };
  for (const Known& known : {Known{"gpipe", 1, 9, 21, 12, 24}, Known{"1f1b", 1, 9, 21, 4, 8}, Known{"interleaved", 2, 4.5, 10.5, 5.5, 11.5},
                             Known{"interleaved", 3, 3, 7, 5, 31 / 3.0}, Known{"zb-h1", 1, 3, 7, 4, 8}, Known{"zb-v", 2, 1.5, 3.5, 4, 8}}) {
    const Result four = simulated(known.name, 4, 12, known.virtual_stages, {}),
                 eight = simulated(known.name, 8, 24, known.virtual_stages, {});
    EXPECT_NEAR(four.bubble(12, {}), known.bubble4, 1e-9) << known.name;
    EXPECT_NEAR(eight.bubble(24, {}), known.bubble8, 1e-9) << known.name;
    EXPECT_NEAR(*std::max_element(four.activations.begin(), four.activations.end()), known.peak4, 1e-9) << known.name;
    EXPECT_NEAR(*std::max_element(eight.activations.begin(), eight.activations.end()), known.peak8, 1e-9) << known.name;
  }
}

TEST(FormulaCheck, GivesTheKnownBubblesForSlowerInputGradients) {
  const Seconds s{1, 1.2, 1};
  EXPECT_NEAR(simulated("zb-h1", 4, 12, 1, s).bubble(12, s), 3.6, 1e-9);
  EXPECT_NEAR(simulated("zb-v", 4, 12, 2, s).bubble(12, s), 1.8, 1e-9);
  EXPECT_NEAR(simulated("zb-v", 4, 12, 2, s).timeline.span_bubble, 0.6, 1e-9);
}

}  // namespace
}  // namespace sluice::parallel
