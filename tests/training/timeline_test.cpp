#include "training/report/timeline.h"

#include <gtest/gtest.h>

#include "core/byte_units.h"
#include "core/device.h"
#include "parallel/program/simulate.h"
#include "parallel/schedule/named.h"
#include "training/report/partition_plot.h"

namespace sluice::training {
namespace {

using parallel::ActionKind;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

parallel::Topology chain(int nodes) {
  parallel::Topology topology;
  topology.inputs = {"x"};
  for (int node = 0; node < nodes; ++node) topology.nodes.push_back({"node" + std::to_string(node), {node}});
  topology.differentiable.assign(static_cast<size_t>(nodes) + 1, true);
  topology.differentiable[0] = false;
  return topology;
}

/// A chain with a node a stage, each forward 1 ms, each part of a backward 1 ms.
parallel::Trace trace_of(const std::string& schedule, int devices, int micro_batches, int virtual_stages = 1, bool remat = false) {
  const auto order = parallel::make_schedule(parallel::schedule_named(schedule), devices, micro_batches, virtual_stages);
  const int stages = order.stage_count();
  const auto topology = chain(stages);
  const auto program = lower(topology, parallel::partition_uniform(stages, stages), order, std::vector<bool>(stages, remat));
  parallel::SimulationCosts costs;
  costs.forward = costs.input_gradient = costs.weight_gradient = costs.recompute = std::vector<double>(stages, 1e-3);
  costs.backward.assign(stages, 2e-3);
  costs.step.assign(devices, 1e-3);
  const auto timeline = simulate(program, costs);
  parallel::Trace trace;
  trace.seconds = timeline.seconds;
  for (int device = 0; device < devices; ++device) trace.device_names.push_back("meta:" + std::to_string(device));
  for (const auto& action : timeline.actions) {
    const auto& done = program.devices[action.device][action.index];
    trace.events.push_back({action.device, done, action.start, action.end, (1 + done.micro_batch) * 1_MiB});
  }
  return trace;
}

constexpr const char *kForward = "fill=\"#56b4e9\"", *kBackward = "fill=\"#e69f00\"", *kInputs = "fill=\"#f0e442\"",
                     *kWeights = "fill=\"#3fb68e\"", *kRecompute = "fill=\"#cc79a7\"", *kBubble = "fill=\"#ececec\"";

TEST(Timeline, HasABoxForEveryActionAndOneInTheLegend) {
  const std::string plot = timeline_plot(trace_of("1f1b", 2, 4), {"plan"}).finish();
  EXPECT_EQ(count(plot, kForward), 2 * 4 + 1);
  EXPECT_EQ(count(plot, kBackward), 2 * 4 + 1);
  EXPECT_EQ(count(plot, kInputs) + count(plot, kWeights) + count(plot, kRecompute), 0);
  EXPECT_EQ(count(plot, kBubble), 2 + 1) << "the ground of each row";
  EXPECT_EQ(count(plot, ">3</text>"), 2 * 2) << "the number of the last micro-batch on F and B of both devices";
  EXPECT_EQ(count(plot, "stroke=\"#0072b2\""), 2 * 4 + 2 + 1) << "activations, gradients, two norms and the legend";
}

TEST(Timeline, TellsSplitBackwardsAndRecomputationApart) {
  const std::string split = timeline_plot(trace_of("zb-h1", 2, 4), {}).finish();
  EXPECT_EQ(count(split, kInputs), 2 * 4 + 1);
  EXPECT_EQ(count(split, kWeights), 2 * 4 + 1);
  EXPECT_EQ(count(split, kBackward), 0);
  EXPECT_EQ(count(timeline_plot(trace_of("gpipe", 2, 4, 1, true), {}).finish(), kRecompute), 2 * 4 + 1);
}

TEST(Timeline, LaterStagesOfADeviceAreLighter) {
  const std::string plot = timeline_plot(trace_of("interleaved", 2, 4, 2), {}).finish();
  EXPECT_EQ(count(plot, kForward), 2 * 4 + 1);
  EXPECT_EQ(count(plot, "fill=\"#89cbf0\""), 2 * 4);
  EXPECT_TRUE(plot.find("later of the 2 stages") != plot.npos);
}

TEST(Timeline, OfManyDevicesLeavesOutWhatNobodyCouldRead) {
  const auto trace = trace_of("1f1b", 64, 64);
  const Svg svg = timeline_plot(trace, {});
  const std::string plot = svg.finish();
  EXPECT_EQ(count(plot, kForward), 64 * 64 + 1);
  EXPECT_EQ(count(plot, "stroke=\"#0072b2\""), 0);
  EXPECT_TRUE(plot.find("transfers are not drawn") != plot.npos);
  EXPECT_EQ(count(plot, ">meta:"), 64);
  EXPECT_LT(svg.height(), 1100);
  EXPECT_EQ(svg.width(), 1200);
  EXPECT_LT(count(plot, "<text"), 400) << "of 8192 numbers";
}

TEST(Timeline, PlotsWithOneEndHaveOneScale) {
  const auto trace = trace_of("1f1b", 2, 4);
  const auto half = timeline_plot(trace, {"", trace.seconds}).finish(), whole = timeline_plot(trace, {"", 2 * trace.seconds}).finish();
  EXPECT_NE(half, whole);
  EXPECT_EQ(half, timeline_plot(trace, {}).finish());
}

TEST(MemoryTimeline, ShowsPeaksAndTheBudgetWhereItIsNear) {
  const auto trace = trace_of("1f1b", 2, 4);
  const std::string near = memory_timeline_plot(trace, {6_MiB, 6_MiB}, {}).finish();
  EXPECT_EQ(count(near, "<polygon"), 2);
  EXPECT_EQ(count(near, ">4.00 MiB</text>"), 2);
  EXPECT_EQ(count(near, "stroke-dasharray"), 2 + 1);
  const std::string far = memory_timeline_plot(trace, {6_GiB, 6_GiB}, {}).finish();
  EXPECT_EQ(count(far, "stroke-dasharray"), 0);
  EXPECT_TRUE(far.find("far above") != far.npos);
  EXPECT_EQ(count(memory_timeline_plot(trace, {kUnlimited, kUnlimited}, {}).finish(), "budget"), 0);
}

TEST(MemoryTimeline, OfManyDevicesIsShades) {
  const std::string plot = memory_timeline_plot(trace_of("1f1b", 64, 8), {4_MiB}, {}).finish();
  EXPECT_EQ(count(plot, "<polygon"), 0);
  EXPECT_TRUE(plot.find("is passed") != plot.npos);
}

TEST(PartitionPlot, HasEveryNodeInEveryBarAndAnArcForASkip) {
  auto topology = chain(6);
  const auto partition = parallel::partition_given({2, 4}, 6);
  const CutModel model{topology, partition, {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}};
  const std::string plain = partition_plot(model).finish();
  EXPECT_EQ(count(plain, "<title>node"), 3 * 6);
  EXPECT_EQ(count(plain, "fill=\"#56b4e9\""), 3 * 2);
  EXPECT_EQ(count(plain, "<path"), 0);
  EXPECT_TRUE(plain.find(">33.3 %<") != plain.npos) << "of the time";
  EXPECT_TRUE(plain.find(">85.7 %<") != plain.npos) << "of the parameters";
  topology.nodes[5].inputs.push_back(topology.value_of(1));
  EXPECT_EQ(count(partition_plot(model).finish(), "<path"), 1);
}

}  // namespace
}  // namespace sluice::training
