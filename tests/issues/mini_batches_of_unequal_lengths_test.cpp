// Receivers made room for the lengths of the first mini-batch with as many samples, or for those that the inputs were declared with.
#include <gtest/gtest.h>

#include "core/batch.h"
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

struct Outcome {
  std::string hash;
  std::vector<int64_t> peak_bytes;
};

Outcome train(const std::string& on, const std::vector<int64_t>& lengths) {
  const auto graph = models::transformer_lm({.layers = 2, .dim = 16, .heads = 2, .vocab = 11, .context = 32});
  const Plan chosen = plan(graph, devices(on), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}), {.seed = 3});
  Outcome outcome;
  for (const int64_t length : lengths) outcome.peak_bytes = trainer.step(tokens_of_length(length)).peak_bytes;
  outcome.hash = trainer.weights_hash();
  return outcome;
}

TEST(MiniBatchesOfUnequalLengths, TrainTheSameWeightsWhateverTheCut) {
  const std::vector<int64_t> lengths{32, 8, 19, 8, 1, 32};
  EXPECT_EQ(train("cpu:0", lengths).hash, train("cpu:0,cpu:1", lengths).hash);
}

TEST(MiniBatchesOfUnequalLengths, HoldNoMoreThanTheirOwnLengthsNeed) {
  const Outcome longest = train("cpu:0,cpu:1", {32}), shorter = train("cpu:0,cpu:1", {8}), both = train("cpu:0,cpu:1", {8, 32, 8});
  EXPECT_EQ(both.peak_bytes, longest.peak_bytes);
  EXPECT_LT(shorter.peak_bytes, longest.peak_bytes);
}

}  // namespace
}  // namespace sluice::parallel
