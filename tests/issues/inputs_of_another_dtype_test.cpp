// An input declared in f64, or in bf16, was planned, and refused at the first step by a layer of f32 weights, with a message about its bias.
#include <gtest/gtest.h>

#include "core/ops/copy.h"
#include "layers/activation.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/group_norm.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "layers/recurrent.h"
#include "parallel/trainer.h"

namespace sluice::parallel {
namespace {

using namespace layers;

constexpr int64_t kSamples = 4;

/// Of a classifier that begins with `first`, trained in f32 on sequences [5, 4] of the given dtype.
template <class M>
std::string hash_after_training(const M& first, DType dtype) {
  Graph graph;
  const Value items = graph.input("items", {5, 4}, dtype), label = graph.input("label", {5}, DType::i32);
  graph.loss(graph.add("loss", CrossEntropy(), {graph.add("logits", Linear(4, 3), graph.add("first", first, items)), label}));
  const Tensor numbers = empty({kSamples, 5, 4}), labels = zeros({kSamples, 5}, DType::i32);
  fill_normal(numbers, 0, 1, random_key(1, "items"));
  const Tensor rounded = cast(numbers, DType::bf16);  // numbers that all dtypes have
  Trainer trainer(graph, plan(graph, devices("cpu:0"), {.batch = kSamples, .micro_batches = 2}), SGD({.lr = 0.1}));
  for (int step = 0; step < 2; ++step) trainer.step(batch_of({{"items", cast(rounded, dtype)}, {"label", labels}}));
  return trainer.weights_hash();
}

template <class M>
void expect_to_train_as_in_single_precision(const M& first) {
  const std::string hash = hash_after_training(first, DType::f32);
  for (const DType dtype : {DType::f64, DType::bf16}) EXPECT_EQ(hash_after_training(first, dtype), hash) << name_of(dtype);
}

TEST(InputsOfAnotherDtype, BecomeThatOfTheWeightsThatComputeOnThem) {
  expect_to_train_as_in_single_precision(Linear(4, 4));
  expect_to_train_as_in_single_precision(FeedForward({.width = 4, .inner = 8}));
  expect_to_train_as_in_single_precision(Conv1d({.in = 4, .out = 4, .size = 3}));
  expect_to_train_as_in_single_precision(BatchNorm(4));
  expect_to_train_as_in_single_precision(LayerNorm(4));
  expect_to_train_as_in_single_precision(RMSNorm(4));
  expect_to_train_as_in_single_precision(GroupNorm(2, 4));
  expect_to_train_as_in_single_precision(PReLU(4));
  expect_to_train_as_in_single_precision(Positions(Positions::Kind::learned, 5, 4));
  expect_to_train_as_in_single_precision(GRU(4, 4));
  expect_to_train_as_in_single_precision(PreNormResidual(LayerNorm(4), Linear(4, 4), 0.3));
  expect_to_train_as_in_single_precision(Residual(Linear(4, 4), 0));
}

}  // namespace
}  // namespace sluice::parallel
