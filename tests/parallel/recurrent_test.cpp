#include "layers/recurrent.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/trainer.h"
#include "tests/parallel/pipelines.h"

namespace sluice::parallel {
namespace {

using namespace layers;

constexpr int64_t kBatch = 8, kSteps = 6, kWidth = 5;

Graph recurrent_graph() {
  Graph graph;
  const Value x = graph.input("x", {kSteps, kWidth}), target = graph.input("target", {kSteps, 2 * kWidth});
  const Value states = graph.input("states", {2, kWidth});
  const Value encoded = graph.add("encoder", GRU({.inputs = kWidth, .hidden = 7, .layers = 2, .dropout = 0.3}), x);
  const Value y = graph.add("decoder", LSTM({.inputs = 7, .hidden = kWidth, .bidirectional = true}), {encoded, states});
  graph.output(y);
  graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("head", Linear(2 * kWidth, 2 * kWidth), y), target}));
  return graph;
}

std::map<std::string, Tensor> drawn_inputs(uint64_t seed) {
  const auto drawn = [&](const Shape& shape, const char* name) { return randn(shape, random_key(seed, name)); };
  return {{"x", drawn({kBatch, kSteps, kWidth}, "x")},
          {"states", drawn({kBatch, 2, kWidth}, "states")},
          {"target", drawn({kBatch, kSteps, 2 * kWidth}, "target")}};
}
Batch recurrent_batch(uint64_t seed) { return batch_of(drawn_inputs(seed)); }

TEST(Recurrent, HasOneAnswerForEveryPipeline) { sluice::testing::expect_one_answer(recurrent_graph(), recurrent_batch); }

/// The decoder goes on from the encoder's last states, both over sequences of unequal lengths.
Graph graph_of_lengths() {
  Graph graph;
  const Value x = graph.input("x", {kSteps, kWidth}), lengths = graph.input("lengths", {}, DType::i32);
  const Value y = graph.input("states", {2, kWidth}), target = graph.input("target", {kSteps, 2 * kWidth});
  const RecurrentOptions encoder{.inputs = kWidth, .hidden = kWidth, .bidirectional = true, .output = RecurrentOutput::last_states};
  const Value last = graph.add("encoder", LSTM(encoder), {x, lengths});
  const Value decoded = graph.add("decoder", LSTM({.inputs = kWidth, .hidden = kWidth, .layers = 2}), {x, last, lengths});
  const Value mixed = graph.add("mixer", GRU({.inputs = kWidth, .hidden = kWidth, .layers = 2}), {decoded, y, lengths});
  graph.output(mixed);
  graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("head", Linear(kWidth, 2 * kWidth), mixed), target}));
  return graph;
}

TEST(Recurrent, HasOneAnswerOfUnequalLengthsForEveryPipeline) {
  sluice::testing::expect_one_answer(graph_of_lengths(), [](uint64_t seed) {
    std::map<std::string, Tensor> inputs = drawn_inputs(seed);
    inputs["lengths"] = tensor_of({1, 6, 3, 0, 2, 6, 5, 4}, {kBatch}, DType::i32);
    return batch_of(std::move(inputs));
  });
}

double loss_after_a_step(const char* names, Precision precision) {
  const Graph graph = recurrent_graph();
  const Plan chosen =
      plan(graph, devices(names), {.batch = kBatch, .micro_batches = 4, .partition = PartitionRule::uniform, .precision = precision});
  Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
  trainer.step(recurrent_batch(1));
  return trainer.step(recurrent_batch(1)).loss;
}

TEST(Recurrent, TrainsInBf16) {
  const double in_f32 = loss_after_a_step("cpu:0", Precision::f32);
  EXPECT_NEAR(loss_after_a_step("cpu:0,cpu:1", Precision::bf16), in_f32, 0.02);
  EXPECT_EQ(loss_after_a_step("cpu:0,cpu:1", Precision::bf16), loss_after_a_step("cpu:0", Precision::bf16));
}

}  // namespace
}  // namespace sluice::parallel
