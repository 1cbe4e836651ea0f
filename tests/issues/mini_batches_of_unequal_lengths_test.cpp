// Receivers made room for the lengths of the first mini-batch with as many samples, or for those that the inputs were declared with.
#include <gtest/gtest.h>

#include "core/batch.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "models/transformer.h"
#include "parallel/plan.h"
#include "parallel/trainer.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSamples = 4;

Batch tokens_of_length(int64_t length) {
  std::vector<double> tokens, targets;
  for (int64_t i = 0; i < kSamples * length; ++i) {
    tokens.push_back(static_cast<double>((7 * i + length) % 11));
    targets.push_back(static_cast<double>((5 * i + 3) % 11));
  }
  const Shape shape{kSamples, length};
  return batch_of({{"tokens", tensor_of(tokens, shape, DType::i32)}, {"targets", tensor_of(targets, shape, DType::i32)}});
}

std::string train(const std::string& on, const std::vector<int64_t>& lengths) {
  const auto graph = models::transformer_lm({.layers = 2, .dim = 16, .heads = 2, .vocab = 11, .context = 32});
  const Plan chosen = plan(graph, devices(on), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}), {.seed = 3});
  for (const int64_t length : lengths) trainer.step(tokens_of_length(length));
  return trainer.weights_hash();
}

TEST(MiniBatchesOfUnequalLengths, TrainTheSameWeightsWhateverTheCut) {
  const std::vector<int64_t> lengths{32, 8, 19, 8, 1, 32};
  EXPECT_EQ(train("cpu:0", lengths), train("cpu:0,cpu:1", lengths));
}

/// The peaks of a step whose inputs are declared with `declared` positions and come with `length`. No parameter depends on either.
std::vector<int64_t> peaks(int64_t declared, const std::vector<int64_t>& lengths) {
  layers::Graph graph;
  const auto x = graph.input("x", {declared, 16}), label = graph.input("label", {declared}, DType::i32);
  const auto h = graph.add("hidden", layers::Linear(16, 32), x);
  const auto logits = graph.add("logits", layers::Linear(32, 5), h);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {logits, label}));
  const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}), {.seed = 3});
  std::vector<int64_t> bytes;
  for (const int64_t length : lengths)
    bytes = trainer.step(batch_of({{"x", zeros({kSamples, length, 16})}, {"label", zeros({kSamples, length}, DType::i32)}})).peak_bytes;
  return bytes;
}

TEST(MiniBatchesOfUnequalLengths, HoldNoMoreThanTheirOwnLengthsNeed) {
  EXPECT_EQ(peaks(64, {8}), peaks(8, {8}));
  EXPECT_EQ(peaks(64, {8, 64, 8}), peaks(64, {64}));
  EXPECT_LT(peaks(64, {8}), peaks(64, {64}));
}

}  // namespace
}  // namespace sluice::parallel
