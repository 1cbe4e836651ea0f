#include "parallel/run/repetition.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "parallel/run/batch_shape.h"
#include "parallel/schedule/named.h"
#include "parallel/trainer.h"
#include "tests/parallel/random_graph.h"

/// Devices that only count run two micro-batches and repeat the second one for the others: what they count is what all of them take.
namespace sluice::parallel {
namespace {

using testing::Draw;

Plan random_plan(const layers::Graph& graph, Draw& draw) {
  const auto nodes = static_cast<int>(graph.nodes().size());
  const int stages = draw.from(1, std::min(nodes, 6)), each = stages % 2 == 0 && draw.one_in(2) ? 2 : 1;
  Plan plan;
  using enum NamedSchedule;
  const NamedSchedule name = each == 2 ? draw.of<NamedSchedule>({interleaved, zb_v}) : draw.of<NamedSchedule>({gpipe, one_f_one_b, zb_h1});
  plan.micro_batches = draw.from(3, 9);
  plan.schedule = make_schedule(name, stages / each, plan.micro_batches, each);
  Partition partition{std::vector<int>(static_cast<size_t>(stages), 1)};
  for (int more = nodes - stages; more-- > 0;) ++partition.sizes[static_cast<size_t>(draw.from(0, stages - 1))];
  plan.partition = partition;
  for (int node = 0; node < nodes; ++node) plan.rematerialize.push_back(draw.one_in(3));
  return plan;
}

struct Counted {
  std::vector<int64_t> peaks, live_after;
  StepResult step;
  Trace trace;
};

/// Budgets turn repetition off: an action that passes one is named where it does.
Counted count(const layers::Graph& graph, Plan plan, int devices, int64_t budget) {
  for (int i = 0; i < devices; ++i) plan.devices.push_back(make_device(join("meta:", i), {.budget_bytes = budget}));
  Trainer trainer(graph, plan, AdamW({.lr = 1e-3}));
  Counted counted;
  trainer.step(meta_batch(graph, 2 * plan.micro_batches));
  counted.step = trainer.step(meta_batch(graph, 2 * plan.micro_batches));
  counted.trace = trainer.trace();
  for (const auto& device : plan.devices) {
    counted.peaks.push_back(device->peak_bytes());
    counted.live_after.push_back(device->live_bytes());
  }
  return counted;
}

TEST(Repetition, TakesWhatEveryMicroBatchTakesInRandomModels) {
  int repeating = 0, models = 0;
  for (uint64_t seed = 0; models < 150; ++seed) {
    SCOPED_TRACE(join("seed ", seed));
    const auto model = testing::random_graph(seed);
    if (!model.has_shapes) continue;
    ++models;
    Draw draw(seed);
    const Plan plan = random_plan(model.graph, draw);
    const int devices = plan.schedule.own()->device_count();
    const Counted whole = count(model.graph, plan, devices, kUnlimited - 1), repeated = count(model.graph, plan, devices, kUnlimited);
    EXPECT_EQ(repeated.peaks, whole.peaks);
    EXPECT_EQ(repeated.live_after, whole.live_after);
    EXPECT_NEAR(repeated.step.flops, whole.step.flops, 1e-9 * whole.step.flops);
    ASSERT_EQ(repeated.trace.events.size(), whole.trace.events.size());
    for (size_t i = 0; i < whole.trace.events.size(); ++i) {
      const TraceEvent &a = repeated.trace.events[i], &b = whole.trace.events[i];
      ASSERT_EQ(a.live_bytes, b.live_bytes) << "event " << i;
      ASSERT_NEAR(a.start, b.start, 1e-9 * whole.step.seconds) << "event " << i;
      ASSERT_NEAR(a.end, b.end, 1e-9 * whole.step.seconds) << "event " << i;
    }
    repeating += model.graph.statistics().empty();
  }
  EXPECT_GT(repeating, 50);
}

Action action(ActionKind kind, int micro_batch) {
  return {.kind = kind, .stage = 0, .micro_batch = micro_batch, .transfer = {}, .frees = {}};
}

Program program_of(const std::vector<std::pair<ActionKind, int>>& list) {
  Program program;
  program.partition.sizes = {1};
  program.device_of_stage = {0};
  program.micro_batches = 3;
  program.devices.resize(1);
  for (const auto& [kind, micro_batch] : list) program.devices[0].push_back(action(kind, micro_batch));
  return program;
}

TEST(Repetition, IsThatOfProgramsByName) {
  constexpr int kDevices = 4, kMicroBatches = 16;
  for (const NamedSchedule name : kNamedSchedules) {
    const int each = name == NamedSchedule::interleaved || name == NamedSchedule::zb_v ? 2 : 1;
    const Schedule schedule = make_schedule(name, kDevices, kMicroBatches, each);
    layers::Graph graph;
    auto value = graph.input("x", {4});
    const auto label = graph.input("label", {}, DType::i32);
    for (int node = 0; node < kDevices * each; ++node) value = graph.add(join("n", node), layers::Linear(4, 4), value);
    graph.loss(graph.add("loss", layers::CrossEntropy(), {value, label}));
    Partition partition = partition_uniform(kDevices * each, kDevices * each);
    ++partition.sizes.back();
    const Program program = lower(topology_of(graph), partition, schedule, std::vector<bool>(kDevices * each + 1));
    const bool has_one_order = name != NamedSchedule::zb_v;  // whose W fill gaps where they come
    EXPECT_EQ(repeats_micro_batches(program, 2 * kMicroBatches), has_one_order) << name_of(name);
  }
}

TEST(Repetition, NeedsTheSameOrderOfEveryMicroBatchAndTheSecondBeforeTheThird) {
  constexpr auto F = ActionKind::forward, I = ActionKind::input_gradient, W = ActionKind::weight_gradient;
  EXPECT_TRUE(repeats_micro_batches(program_of({{F, 0}, {F, 1}, {F, 2}, {I, 0}, {W, 0}, {I, 1}, {W, 1}, {I, 2}, {W, 2}}), 6));
  EXPECT_FALSE(repeats_micro_batches(program_of({{F, 0}, {F, 1}, {F, 2}, {I, 0}, {W, 0}, {I, 1}, {W, 1}, {I, 2}, {W, 2}}), 7)) << "uneven";
  constexpr auto P = ActionKind::recv_post;
  EXPECT_TRUE(repeats_micro_batches(program_of({{P, 0}, {F, 0}, {P, 1}, {F, 1}, {I, 0}, {F, 2}, {I, 1}, {P, 2}, {I, 2}}), 6));
  EXPECT_FALSE(repeats_micro_batches(program_of({{P, 0}, {F, 0}, {F, 1}, {I, 0}, {P, 2}, {F, 2}, {P, 1}, {I, 1}, {I, 2}}), 6)) << "post";
  EXPECT_FALSE(repeats_micro_batches(program_of({{F, 0}, {F, 2}, {F, 1}, {I, 0}, {W, 0}, {I, 1}, {W, 1}, {I, 2}, {W, 2}}), 6));
  EXPECT_FALSE(repeats_micro_batches(program_of({{F, 1}, {F, 0}, {F, 2}, {I, 0}, {W, 0}, {I, 1}, {W, 1}, {I, 2}, {W, 2}}), 6));
  EXPECT_FALSE(repeats_micro_batches(program_of({{F, 0}, {F, 1}, {F, 2}, {I, 0}, {W, 0}, {I, 1}, {W, 1}, {W, 2}, {I, 2}}), 6));
  EXPECT_FALSE(repeats_micro_batches(program_of({{F, 0}, {F, 1}, {F, 2}, {I, 0}, {W, 0}, {I, 1}, {W, 1}, {I, 2}}), 6));
}

}  // namespace
}  // namespace sluice::parallel
