// Promises 1 to 3 of docs/design.md on a whole U-Net, and the way of its long skips: from the encoder's device straight to the decoder's.
#include "models/unet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"
#include "parallel/trainer.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSize = 12, kClasses = 3, kFilters = 4;

layers::Graph tiny_unet() {
  return models::unet({.depth = 2, .filters = kFilters, .classes = kClasses, .image_size = kSize, .dropout = 0.3});
}

Batch images(uint64_t seed, int64_t samples) {
  const Tensor image = empty({samples, kSize, kSize, 3});
  fill_normal(image, 0, 1, random_key(seed, "image"));
  return batch_of({{"image", image}, {"mask", sluice::testing::random_tokens({samples, kSize, kSize}, kClasses, seed)}});
}

TEST(UNet, HasOneAnswerForEveryPipeline) {
  sluice::testing::expect_one_answer(tiny_unet(), [](uint64_t seed) { return images(seed, 8); });
}

int node_named(const layers::Graph& graph, const std::string& name) {
  const auto& nodes = graph.nodes();
  return static_cast<int>(std::ranges::find(nodes, name, &layers::Graph::Node::name) - nodes.begin());
}

/// The encoder's levels, the bottom and the decoder's levels: the skip of level 0 leads from the first stage past two others to the last.
const Partition kStages{{3, 5, 3, 5}};

Plan four_stages(const layers::Graph& graph, int64_t batch, int micro_batches, Remat remat, NamedSchedule schedule) {
  return plan(graph, devices("cpu:0,cpu:1,cpu:2,cpu:3"),
              {.batch = batch, .micro_batches = micro_batches, .schedule = schedule, .partition = kStages, .remat = remat});
}

/// The ways, as from-to pairs of stages, of a value or of its gradient in the step that the trace shows, one a micro-batch.
std::vector<std::pair<int, int>> ways_of(const Trace& trace, Payload payload, int value) {
  std::vector<std::pair<int, int>> ways;
  for (const auto& event : trace.events) {
    const Action& action = event.action;
    if (action.kind == ActionKind::send && action.transfer.payload == payload && action.transfer.value == value)
      ways.emplace_back(action.transfer.from, action.transfer.to);
  }
  return ways;
}

TEST(UNet, SendsItsLongSkipsDirectly) {
  const auto graph = tiny_unet();
  const int micro_batches = 4;
  for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b}) {
    Trainer trainer(graph, four_stages(graph, 8, micro_batches, Remat::none, schedule), AdamW({.lr = 1e-2}));
    trainer.step(images(1, 8));
    using Ways = std::vector<std::pair<int, int>>;
    const int outer = graph.value_of(node_named(graph, "encoder0_conv1")), inner = graph.value_of(node_named(graph, "encoder1_conv1"));
    EXPECT_EQ(ways_of(trainer.trace(), Payload::activation, outer), Ways(micro_batches, {0, 3}));
    EXPECT_EQ(ways_of(trainer.trace(), Payload::gradient, outer), Ways(micro_batches, {3, 0}));
    EXPECT_EQ(ways_of(trainer.trace(), Payload::activation, inner), Ways(micro_batches, {1, 2}));
    EXPECT_EQ(ways_of(trainer.trace(), Payload::gradient, inner), Ways(micro_batches, {2, 1}));
  }
}

/// Bytes of the last stage with so many micro-batches of two samples each, all of which it has received before the first backward.
int64_t last_stage_peak(const layers::Graph& graph, int micro_batches) {
  const AdamW optimizer({.lr = 1e-2});
  const Plan chosen = four_stages(graph, 2 * micro_batches, micro_batches, Remat::full, NamedSchedule::gpipe);
  Trainer trainer(graph, chosen, optimizer);
  trainer.step(images(1, 2 * micro_batches));
  const Prediction prediction = predict(graph, chosen, optimizer, 2 * micro_batches, {});
  EXPECT_EQ(chosen.devices[3]->peak_bytes(), prediction.devices[3].peak_bytes);
  return prediction.devices[3].peak_bytes;
}

TEST(UNet, CountsTheSkipsThatTheDecoderHolds) {
  const auto graph = tiny_unet();
  const int64_t pixels = 2 * kSize * kSize, skip_bytes = pixels * kFilters * 4, below_bytes = pixels / 4 * kFilters * 4;
  EXPECT_GE(last_stage_peak(graph, 5) - last_stage_peak(graph, 2), 3 * (skip_bytes + below_bytes));
}

}  // namespace
}  // namespace sluice::parallel
