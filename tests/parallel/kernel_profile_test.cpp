#include "parallel/plan/kernel_profile.h"

#include <gtest/gtest.h>

#include <set>

#include "core/device_description.h"
#include "models/amoebanet.h"
#include "parallel/plan.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;

const AdamW kOptimizer({.lr = 1e-2});

Plan plan_on(const layers::Graph& graph, const DevicePtr& device, int micro_batches, Precision precision = Precision::f32) {
  return plan(graph, {device}, {.batch = 4, .micro_batches = micro_batches, .precision = precision, .optimizer = &kOptimizer});
}

/// That a CPU is counted to run what it runs: kernels of every kind, and what each takes.
void expect_runs_what_is_counted(const layers::Graph& graph, const Batch& batch, int micro_batches, Precision precision) {
  const auto counted = counted_kernels(graph, plan_on(graph, make_device("meta:0"), micro_batches, precision), kOptimizer, batch.samples);
  const auto measured = measured_kernels(graph, plan_on(graph, make_device("cpu:0"), micro_batches, precision), kOptimizer, batch, 0.01);
  ASSERT_FALSE(counted.kernels.empty());
  EXPECT_EQ(measured.kernels.size(), counted.kernels.size());
  for (const auto& [kind, tally] : counted.kernels) {
    ASSERT_TRUE(measured.kernels.contains(kind)) << kind;
    const KernelTally& ran = measured.kernels.at(kind);
    EXPECT_EQ(ran.calls, tally.calls) << kind;
    EXPECT_NEAR(ran.cost.flops, tally.cost.flops, 1e-9 * tally.cost.flops) << kind;
    EXPECT_NEAR(ran.cost.bytes_read, tally.cost.bytes_read, 1e-9 * tally.cost.bytes_read) << kind;
    EXPECT_NEAR(ran.cost.bytes_written, tally.cost.bytes_written, 1e-9 * tally.cost.bytes_written) << kind;
    EXPECT_GT(ran.seconds, 0) << kind;
  }
  double sum = 0;
  for (const auto& [kind, tally] : measured.kernels) sum += tally.seconds;
  EXPECT_LT(sum, measured.step_seconds);
}

TEST(KernelProfile, ADeviceRunsTheKernelsThatAreCounted) {
  const auto options = tiny_transformer_options();
  const auto gpt = models::transformer_lm(options);
  for (const int micro_batches : {1, 4}) {
    expect_runs_what_is_counted(gpt, token_batch(options, 4, 1), micro_batches, Precision::f32);
    expect_runs_what_is_counted(image_graph(), image_batch(4, 1), micro_batches, Precision::f32);
  }
  expect_runs_what_is_counted(gpt, token_batch(options, 4, 1), 2, Precision::bf16);
}

TEST(KernelProfile, CountsWholeStepsOnTheClockOfTheDevice) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const auto profile = counted_kernels(graph, plan_on(graph, make_device("meta:0"), 4), kOptimizer, 4);
  double seconds = 0;
  for (const auto& [kind, tally] : profile.kernels) seconds += tally.seconds;
  EXPECT_NEAR(seconds, profile.step_seconds, 1e-9 * seconds);
  EXPECT_EQ(profile.kernels.at("attention f32").calls, 2 * 4);  // layers, micro-batches
  EXPECT_EQ(profile.kernels.at("adam_step f32").calls, 1);
}

/// A micro-batch more reads the weights twice more and the sums of gradients once, and writes these once; all else is there once for every
/// sample. What kernels move is more.
TEST(KernelProfile, SaysWhatTheActionsOfAStepMoveAtLeast) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  double parameters = 0;
  for (const auto& parameter : graph.parameters()) parameters += 4.0 * static_cast<double>(parameter.spec.shape.elements());
  const auto profile = [&](int micro_batches, Precision precision) {
    return counted_kernels(graph, plan_on(graph, make_device("meta:0"), micro_batches, precision), kOptimizer, 4);
  };
  const auto moved = [](const KernelProfile& of) {
    double bytes = 0;
    for (const auto& [kind, tally] : of.kernels) bytes += tally.cost.bytes_read + tally.cost.bytes_written;
    return bytes;
  };
  const auto one = profile(1, Precision::f32), two = profile(2, Precision::f32), half = profile(1, Precision::bf16);
  EXPECT_NEAR(two.least_bytes - one.least_bytes, 4 * parameters, 0.01 * parameters);
  EXPECT_GT(one.least_bytes, (2 + 1 + 7) * parameters);  // forward and backward; gradients; AdamW's step
  for (const auto& of : {one, two, half}) EXPECT_LT(of.least_bytes, moved(of));
  EXPECT_LT(half.least_bytes, one.least_bytes);
  const auto measured =
      measured_kernels(graph, plan_on(graph, make_device("cpu:0"), 2), kOptimizer, token_batch(tiny_transformer_options(), 4, 1), 0.01);
  EXPECT_EQ(measured.least_bytes, two.least_bytes);
}

/// The products of weights' gradients add to the sums over micro-batches, and tokens' to their tables; what a pass adds are sums over samples:
/// biases, gains and the table of positions.
TEST(KernelProfile, MoreMicroBatchesMakeNoPassOverGradientsOfWeights) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  double sums = 0;
  for (const auto& parameter : graph.parameters()) {
    if (parameter.spec.shape.rank() == 1 || parameter.name.find("position") != std::string::npos)
      sums += 4.0 * static_cast<double>(parameter.spec.shape.elements());
  }
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const auto added = [&](DeviceKind kind) {
      const auto written = [&](int micro_batches) {
        const auto device = make_device("meta:0", {.stands_for = kind});
        double bytes = 0;
        for (const auto& [name, tally] : counted_kernels(graph, plan_on(graph, device, micro_batches, precision), kOptimizer, 4).kernels)
          if (name.starts_with("add_into ")) bytes += tally.cost.bytes_written;
        return bytes;
      };
      return written(4) - written(1);
    };
    for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::cpu})
      EXPECT_EQ(added(kind), 3 * sums) << kind << ", " << name_of(precision);
  }
}

/// Their rows are padded there, as the products on both sides of them need it; between nodes they are no view to make row-major.
TEST(KernelProfile, NothingCopiesTheLogitsOfAnOddVocabularyOnGpus) {
  auto options = tiny_transformer_options();
  options.vocab = 131;
  const auto device = make_device("meta:0", {.stands_for = DeviceKind::cuda});
  for (const int micro_batches : {1, 4}) {
    const auto graph = models::transformer_lm(options);
    const auto kernels = counted_kernels(graph, plan_on(graph, device, micro_batches, Precision::bf16), kOptimizer, 4).kernels;
    EXPECT_FALSE(kernels.contains("copy bf16")) << kernels.at("copy bf16").calls << " copies";
    EXPECT_TRUE(kernels.contains("cross_entropy bf16"));
  }
}

TEST(KernelProfile, EfficienciesDivideTheTimeOfTheirOps) {
  const auto graph = models::transformer_lm(tiny_transformer_options());
  const auto on = [&](std::map<std::string, double, std::less<>> efficiency) {
    const DeviceSpeed speed{.efficiency = std::move(efficiency)};
    return counted_kernels(graph, plan_on(graph, make_device("meta:0", {.speed = speed}), 1), kOptimizer, 4);
  };
  const auto whole = on({}), half = on({{"matmul", 0.5}, {"other", 0.25}});
  for (const auto& [kind, tally] : whole.kernels)
    EXPECT_NEAR(half.kernels.at(kind).seconds, tally.seconds * (kind == "matmul f32" ? 2 : 4), 1e-9 * tally.seconds) << kind;
}

TEST(KernelProfile, EveryEfficiencyOfADescriptionIsOfAnOp) {
  std::set<std::string, std::less<>> ops{"other"};
  const auto note = [&](const layers::Graph& graph, Precision precision) {
    for (const auto& [kind, tally] : counted_kernels(graph, plan_on(graph, make_device("h200:0"), 2, precision), kOptimizer, 4).kernels)
      ops.insert(kind.substr(0, kind.find(' ')));
  };
  auto options = tiny_transformer_options();
  note(models::transformer_lm(options), Precision::bf16);
  options.norm = models::Normalization::rms_norm;
  note(models::transformer_lm(options), Precision::bf16);
  models::AmoebaNetOptions separable;  // its cells have depthwise convolutions
  separable.genotype = models::AmoebaNet::b;
  separable.layers = 3;
  separable.filters = 16;
  separable.image_size = 32;
  note(models::amoebanet(separable), Precision::bf16);
  for (const std::string& name : described_devices())
    for (const auto& [op, efficiency] : describe_device(name).efficiency) EXPECT_TRUE(ops.contains(op)) << name << ": " << op;
}

TEST(KernelProfile, RefusesWhatItCannotProfile) {
  const auto options = tiny_transformer_options();
  const auto graph = models::transformer_lm(options);
  const Plan two = plan(graph, devices("2x meta"), {.batch = 4, .optimizer = &kOptimizer});
  const Plan here = plan_on(graph, make_device("cpu:0"), 1), counted = plan_on(graph, make_device("meta:0"), 1);
  expect_error<UsageError>([&] { counted_kernels(graph, two, kOptimizer, 4); },
                           {"needs a plan of one device, got 2", "plan the whole model on one"});
  expect_error<UsageError>([&] { counted_kernels(graph, here, kOptimizer, 4); },
                           {"needs a meta device", "got cpu:0", "call measured_kernels"});
  expect_error<UsageError>([&] { measured_kernels(graph, counted, kOptimizer, token_batch(options, 4, 1), 1); },
                           {"needs a device of this machine", "got meta:0", "call counted_kernels"});
}

}  // namespace
}  // namespace sluice::parallel
