// Receivers made room for the lengths of the first mini-batch with as many samples, or for those that the inputs were declared with. And
// ranges of a mini-batch that were each padded to a length of their own ran in bytes that nobody had counted.
#include <gtest/gtest.h>

#include "core/batch.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "models/transformer.h"
#include "parallel/group/thread_group.h"
#include "parallel/plan.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

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

/// Samples of that input longer and longer, and each range that is loaded as long as its longest; the other input is as long as the first sample.
Batch padded_by_range(const std::string& ragged) {
  constexpr int64_t kOfTheFirst = 2;
  return {kSamples, [=](const std::string& name, int64_t first, int64_t count) {
            return full({count, name == ragged ? 2 * (first + count) : kOfTheFirst}, 1, DType::i32);
          }};
}

TEST(MiniBatchesOfUnequalLengths, ArePaddedAsAWhole) {
  const auto graph = models::transformer_lm({.layers = 2, .dim = 16, .heads = 2, .vocab = 11, .context = 32});
  for (const char* on : {"cpu:0", "cpu:0,cpu:1"}) {
    const Plan chosen = plan(graph, devices(on), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
    Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}), {.seed = 3});
    expect_error<UsageError>([&] { trainer.step(padded_by_range("tokens")); },
                             {"input 'tokens'", "i32 [2]", "got i32 [4] for samples 0 to 1", "pad the mini-batch to one length"});
    expect_error<UsageError>([&] { trainer.step(padded_by_range("targets")); },
                             {"input 'targets'", "i32 [2]", "got i32 [8] for samples 0 to 3", "pad the mini-batch to one length"});
    EXPECT_EQ(trainer.steps_done(), 0);
    trainer.step(tokens_of_length(8));
  }
}

/// Over ranks it is said of all of them, and not what the receiver of one makes of it.
TEST(MiniBatchesOfUnequalLengths, ArePaddedAsAWholeOverRanks) {
  const auto graph = models::transformer_lm({.layers = 2, .dim = 16, .heads = 2, .vocab = 11, .context = 32});
  const auto step = [&](Group& group) {
    const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
    TrainerOptions options{.seed = 3, .timeout_seconds = 60};
    options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
    Trainer(graph, chosen, AdamW({.lr = 1e-2}), options).step(padded_by_range("tokens"));
  };
  expect_error<UsageError>([&] { run_ranks(2, step); }, {"input 'tokens'", "pad the mini-batch to one length"});
}

}  // namespace
}  // namespace sluice::parallel
