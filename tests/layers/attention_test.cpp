// Masks of pairs, and heads that share keys and values.
#include "layers/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "core/ops/comparison.h"
#include "core/ops/concat.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/ramp.h"
#include "core/ops/select.h"
#include "core/random.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::layers {
namespace {

constexpr int64_t kBatch = 2, kTokens = 5, kMemory = 4, kHeads = 4, kWidth = 8;

Tensor drawn_tensor(const Shape& shape, const std::string& name) {
  const Tensor x = empty(shape, DType::f64);
  fill_normal(x, 0, 1, random_key(9, name));
  return x;
}

Call attention_call(const Module& module, std::vector<Var> inputs) {
  Call call;
  call.inputs = std::move(inputs);
  call.training = false;
  for (const auto& spec : module.parameters()) call.parameters.push_back(Var(drawn_tensor(spec.shape, spec.name)));
  return call;
}

std::vector<double> output_of(const Module& module, std::vector<Var> inputs) {
  return module.forward(attention_call(module, std::move(inputs))).value().to_vector();
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-12) << "element " << i;
}

const Tensor& tokens() {
  static const Tensor x = drawn_tensor({kBatch, kTokens, kWidth}, "x");
  return x;
}
const Tensor& memory() {
  static const Tensor x = drawn_tensor({kBatch, kMemory, kWidth}, "memory");
  return x;
}

TEST(MultiHeadAttention, WithATriangleAsItsMaskIsCausal) {
  const MultiHeadAttention causal({.width = kWidth, .heads = kHeads}), full({.width = kWidth, .heads = kHeads, .causal = false});
  const Tensor allowed = triangle(kTokens, kTokens), added = scale(cast(triangle(kTokens, kTokens, 0), DType::f64), 60);
  const auto expected = output_of(causal, {tokens()});
  expect_near(output_of(full, {tokens(), allowed}), expected);
  expect_near(output_of(full, {tokens(), allowed.reshape({1, kTokens, kTokens})}), expected);
  expect_near(output_of(full, {tokens(), masked_fill(zeros({kTokens, kTokens}, DType::f64), equal(allowed, 0), -INFINITY)}), expected);
  const auto nearly = output_of(full, {tokens(), added});
  for (size_t i = 0; i < nearly.size(); ++i) ASSERT_NEAR(nearly[i], expected[i], 1e-6);
}

TEST(MultiHeadAttention, KeepsToLengthsAndAMaskOfPairs) {
  const MultiHeadAttention layer({.width = kWidth, .heads = kHeads});
  const Tensor lengths = tensor_of({5, 3}, {kBatch}, DType::i32), all = full({kTokens, kTokens}, 1, DType::u8);
  expect_near(output_of(layer, {tokens(), lengths, all}), output_of(layer, {tokens(), lengths}));
  expect_near(output_of(layer, {tokens(), all}), output_of(layer, {tokens()}));
}

TEST(MultiHeadAttention, GivesItsBiasAloneWhereATokenSeesNothing) {
  const MultiHeadAttention layer({.width = kWidth, .heads = kHeads, .causal = false});
  const auto y = output_of(layer, {tokens(), zeros({kTokens, kTokens}, DType::u8)});
  const auto bias = drawn_tensor({kWidth}, "out.bias").to_vector();
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], bias[i % kWidth]);
}

TEST(CrossAttention, MasksPairsOfTwoSequences) {
  const CrossAttention layer({.width = kWidth, .heads = kHeads});
  const Tensor lengths = tensor_of({4, 2}, {kBatch}, DType::i32);
  const Tensor seen = less(arange(0, kMemory, 1, DType::i32), lengths.reshape({kBatch, 1}));
  const Tensor allowed = seen.reshape({kBatch, 1, kMemory}).expand({kBatch, kTokens, kMemory});
  const auto expected = output_of(layer, {tokens(), memory(), lengths});
  expect_near(output_of(layer, {tokens(), memory(), allowed}), expected);
  expect_near(output_of(layer, {tokens(), memory(), lengths, allowed}), expected);
}

/// Of a weight or bias whose rows from `first` on are those of heads that several share: the rows of each head.
Tensor of_each_head(const Tensor& packed, int64_t first, int64_t key_heads) {
  std::vector<Tensor> heads;
  for (int64_t head = 0; head < kHeads; ++head) {
    const int64_t row = first + head / (kHeads / key_heads) * (kWidth / kHeads);
    heads.push_back(packed.slice(0, row, row + kWidth / kHeads));
  }
  return concat(heads, 0);
}

TEST(MultiHeadAttention, SharesKeysAndValuesAmongHeads) {
  for (const int64_t key_heads : {1, 2}) {
    const MultiHeadAttention shared({.width = kWidth, .heads = kHeads, .key_heads = key_heads}), whole({.width = kWidth, .heads = kHeads});
    EXPECT_EQ(shared.parameters()[0].shape, Shape({kWidth + 2 * key_heads * 2, kWidth}));
    Call call = attention_call(shared, {tokens()}), written_out = call;
    std::vector<Var> parameters(call.parameters.begin(), call.parameters.end());
    for (Var& packed : std::span(parameters).first(2))  // qkv.weight and qkv.bias
      packed = Var(concat({packed.value().slice(0, 0, kWidth), of_each_head(packed.value(), kWidth, key_heads),
                           of_each_head(packed.value(), kWidth + 2 * key_heads, key_heads)},
                          0));
    written_out.parameters = parameters;
    const auto expected = whole.forward(written_out).value().to_vector();
    expect_near(shared.forward(call).value().to_vector(), expected);
    call.inputs.push_back(Var(full({kTokens, kTokens}, 1, DType::u8)));
    expect_near(shared.forward(call).value().to_vector(), expected);
  }
}

TEST(MultiHeadAttention, ContinuesFromACacheOfSharedKeys) {
  const MultiHeadAttention layer({.width = kWidth, .heads = kHeads, .key_heads = 2});
  const auto whole = layer.forward(attention_call(layer, {tokens()})).value();
  KeyValueCache cache{.capacity = kTokens};
  for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 3}, {3, 4}, {4, 5}}) {
    Call call = attention_call(layer, {tokens().slice(1, first, end).contiguous()});
    call.cache = &cache;
    expect_near(layer.forward(call).value().to_vector(), whole.slice(1, first, end).to_vector());
  }
  EXPECT_EQ(cache.keys.shape(), Shape({kBatch, kTokens, 2, 2}));
}

TEST(MultiHeadAttention, ShowsTheWeightsThatMasksLeave) {
  const MultiHeadAttention causal({.width = kWidth, .heads = kHeads}), full({.width = kWidth, .heads = kHeads, .causal = false});
  std::vector<Tensor> expected, found;
  Call call = attention_call(causal, {tokens()}), masked = attention_call(full, {tokens(), triangle(kTokens, kTokens)});
  call.attention_weights = &expected, masked.attention_weights = &found;
  causal.forward(call), full.forward(masked);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].shape(), expected[0].shape());
  expect_near(found[0].to_vector(), expected[0].to_vector());
}

/// A layer behind linear ones, with a learned bias for pairs.
template <class M>
void expect_gradients_of(M layer, bool has_memory, bool has_bias) {
  Graph graph;
  const Value x = graph.input("x", {kTokens, 3}, DType::f64), other = graph.input("memory", {kMemory, 3}, DType::f64);
  const Value target = graph.input("target", {kTokens, kWidth}, DType::f64);
  std::vector<Value> inputs{graph.add("of_x", Linear(3, kWidth), x)};
  if (has_memory) inputs.push_back(graph.add("of_memory", Linear(3, kWidth), other));
  const int64_t keys = has_memory ? kMemory : kTokens;
  if (has_bias) inputs.push_back(graph.add("bias", Linear(3, keys), x));  // [B, T, S]
  graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("layer", std::move(layer), inputs), target}));
  sluice::testing::expect_gradients_like_differences(
      graph,
      {drawn_tensor({kBatch, kTokens, 3}, "x"), drawn_tensor({kBatch, kMemory, 3}, "m"), drawn_tensor({kBatch, kTokens, kWidth}, "t")});
}

TEST(Attentions, HaveTheGradientsOfTheirMasksAndSharedHeads) {
  expect_gradients_of(MultiHeadAttention({.width = kWidth, .heads = kHeads}), false, true);
  expect_gradients_of(MultiHeadAttention({.width = kWidth, .heads = kHeads, .rotary = true, .context = kTokens, .key_heads = 2}), false,
                      false);
  expect_gradients_of(MultiHeadAttention({.width = kWidth, .heads = kHeads, .causal = false, .key_heads = 1}), false, true);
  expect_gradients_of(CrossAttention({.width = kWidth, .heads = kHeads, .key_heads = 2}), true, true);
  expect_gradients_of(CrossAttention({.width = kWidth, .heads = kHeads, .key_heads = 2}), true, false);
}

TEST(Attentions, NameMasksThatDoNotFit) {
  const MultiHeadAttention layer({.width = kWidth, .heads = kHeads});
  const Tensor lengths = tensor_of({5, 3}, {kBatch}, DType::i32), mask = full({kTokens, kTokens}, 1, DType::u8);
  const auto failing = [&](std::vector<Var> inputs, std::initializer_list<std::string> words) {
    expect_error<UsageError>([&] { output_of(layer, inputs); }, words);
  };
  failing({tokens(), mask, lengths}, {"MultiHeadAttention", "lengths, then at most one mask", "as input 2"});
  failing({tokens(), lengths, lengths}, {"at most 1 inputs of lengths"});
  failing({tokens(), full({kTokens, kTokens}, 1, DType::i32)}, {"floats or u8", "i32"});
  failing({tokens(), full({kTokens, 7}, 1, DType::u8)}, {"allowed pairs", "[5, 5]", "got [5, 7]"});
  expect_error<UsageError>([] { MultiHeadAttention({.width = kWidth, .heads = kHeads, .key_heads = 3}); }, {"divide the heads", "3 for 4"});
  KeyValueCache cache{.capacity = kTokens};
  Call call = attention_call(layer, {tokens(), mask});
  call.cache = &cache;
  expect_error<UsageError>([&] { layer.forward(call); }, {"no mask of pairs in generation"});
}

}  // namespace
}  // namespace sluice::layers
