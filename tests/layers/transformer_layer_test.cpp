#include "layers/transformer_layer.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/ops/select.h"
#include "core/random.h"
#include "layers/attention.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::layers {
namespace {

constexpr int64_t kWidth = 6, kClasses = 5;

Tensor normal(const Shape& shape, const std::string& name, DType dtype = DType::f64) {
  const Tensor x = empty(shape, dtype);
  fill_normal(x, 0, 1, random_key(1, name));
  return x;
}

Tensor lengths(const std::vector<double>& of_samples) {
  return tensor_of(of_samples, {static_cast<int64_t>(of_samples.size())}, DType::i32);
}

/// Each sequence comes out of a linear layer, so that the gradients of its parameters check those of the layer's inputs.
template <class M>
Graph graph_around(M layer, int sequences) {
  Graph graph;
  const Value x = graph.input("x"), memory = graph.input("memory"), memory_lengths = graph.input("memory_lengths");
  const Value own_lengths = graph.input("lengths"), labels = graph.input("labels");
  const Value of_x = graph.add("of_x", Linear(3, kWidth), x);
  std::vector<Value> inputs{of_x, own_lengths};
  if (sequences == 2) inputs = {of_x, graph.add("of_memory", Linear(3, kWidth), memory), memory_lengths, own_lengths};
  const Value y = graph.add("layer", std::move(layer), inputs);
  graph.loss(graph.add("loss", CrossEntropy(), {graph.add("logits", Linear(kWidth, kClasses), y), labels}));
  return graph;
}

template <class M>
void expect_gradients(M layer, int sequences) {
  const Tensor labels = tensor_of({0, 1, 2, 3, 4, 0, -100, -100, 1, 2, -100, -100}, {3, 4}, DType::i32);
  testing::expect_gradients_like_differences(
      graph_around(std::move(layer), sequences),
      {normal({3, 4, 3}, "x"), normal({3, 5, 3}, "memory"), lengths({5, 2, 0}), lengths({4, 2, 2}), labels});
}

TEST(TransformerLayers, HaveTheGradientsOfDifferences) {
  expect_gradients(MultiHeadAttention({.width = kWidth, .heads = 2, .head_width = 4}), 1);
  expect_gradients(MultiHeadAttention({.width = kWidth, .heads = 3, .causal = false}), 1);
  expect_gradients(CrossAttention({.width = kWidth, .heads = 2, .head_width = 5}), 2);
  expect_gradients(PreNormResidual(LayerNorm(kWidth), CrossAttention({.width = kWidth, .heads = 2}), 0.3), 2);
  expect_gradients(TransformerEncoderLayer({.width = kWidth, .heads = 2, .inner = 7, .dropout = 0.2}), 1);
  expect_gradients(TransformerDecoderLayer({.width = kWidth, .heads = 2, .inner = 7, .head_width = 2, .dropout = 0.2}), 2);
}

TEST(TransformerLayers, HaveTheGradientOfDifferencesThroughAClamp) {
  Graph graph;
  const Value x = graph.input("x"), labels = graph.input("labels");
  const Value logits = graph.add("logits", Sequence().then("", Linear(3, kClasses)).then("clip", Clamp(0.5)), x);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, labels}));
  const std::vector<Tensor> inputs{normal({4, 3}, "x"), tensor_of({0, 1, 2, 3}, {4}, DType::i32)};
  const auto parameters = testing::drawn_parameters(graph, 1);
  int64_t cut = 0;
  for (double logit : testing::run_in_f64(graph, inputs, {parameters.begin(), parameters.end()})[0].value().to_vector())
    cut += std::abs(logit) == 0.5;
  EXPECT_GT(cut, 0);
  EXPECT_LT(cut, 4 * kClasses);
  testing::expect_gradients_like_differences(graph, inputs);
  expect_error<UsageError>([] { Clamp(0); }, {"Clamp: needs a limit > 0, got 0"});
}

TEST(MultiHeadAttention, MayBeWiderThanTheModel) {
  const MultiHeadAttention wide({.width = 8, .heads = 4, .head_width = 16});
  EXPECT_EQ(wide.parameters()[0].shape, Shape({3 * 64, 8}));
  EXPECT_EQ(wide.parameters()[2].shape, Shape({8, 64}));
  const CrossAttention cross({.width = 8, .heads = 3, .head_width = 2});
  EXPECT_EQ(cross.parameters()[0].shape, Shape({6, 8}));
  EXPECT_EQ(cross.parameters()[2].shape, Shape({12, 8}));
  EXPECT_EQ(cross.parameters()[4].shape, Shape({8, 6}));
  expect_error<UsageError>([] { CrossAttention({.width = 8, .heads = 3}); }, {"CrossAttention", "3 heads for width 8"});
  expect_error<UsageError>([] { MultiHeadAttention({.width = 8, .heads = 2, .head_width = -1}); }, {"head width >= 0", "got -1"});
}

Call call_of(const Module& module, std::vector<Var> inputs) {
  Call call;
  call.inputs = std::move(inputs);
  call.training = false;
  for (const auto& spec : module.parameters()) call.parameters.push_back(Var(normal(spec.shape, spec.name)));
  return call;
}

TEST(TransformerDecoderLayer, WithItsCacheContinuesAsTheWholeSequenceDoes) {
  const TransformerDecoderLayer layer({.width = kWidth, .heads = 2, .head_width = 4});
  const Tensor x = normal({3, 7, kWidth}, "x"), memory = normal({3, 5, kWidth}, "memory"), memory_lengths = lengths({5, 1, 3});
  const Var whole = layer.forward(call_of(layer, {x, memory, memory_lengths}));
  KeyValueCache cache{.capacity = 7};
  int64_t first = 0;
  for (const int64_t count : {3, 1, 1, 2}) {
    // The memory is read by the first call alone: later ones get another.
    const Tensor now = first == 0 ? memory : normal({3, 5, kWidth}, "another");
    Call call = call_of(layer, {x.slice(1, first, first + count).contiguous(), now, memory_lengths});
    call.cache = &cache;
    const std::vector<double> expected = whole.value().slice(1, first, first + count).to_vector();
    const std::vector<double> found = layer.forward(call).value().to_vector();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << "from token " << first;
    first += count;
  }
}

TEST(TransformerEncoderLayer, ReadsLengthsOnlyWhereItGetsThem) {
  const TransformerEncoderLayer layer({.width = kWidth, .heads = 2});
  const Tensor x = normal({2, 4, kWidth}, "x");
  const auto y = [&](std::vector<Var> inputs) { return layer.forward(call_of(layer, std::move(inputs))).value().to_vector(); };
  EXPECT_EQ(y({x}), y({x, lengths({4, 4})}));
  EXPECT_NE(y({x}), y({x, lengths({4, 3})}));
  expect_error<UsageError>([&] { y({x, lengths({4, 5})}); }, {"query lengths in [0, 5), got 5 of sample 1"});
}

/// The children of a layer by hand, each with its share of the layer's parameters.
class ByHand {
 public:
  explicit ByHand(const Module& layer) : rest_(call_of(layer, {}).parameters) {}
  Var operator()(const Module& child, std::vector<Var> inputs) {
    Call call = call_of(child, std::move(inputs));
    const auto count = static_cast<int64_t>(call.parameters.size());
    call.parameters = std::vector<Var>(rest_.begin(), rest_.begin() + count);
    rest_.erase(rest_.begin(), rest_.begin() + count);
    return child.forward(call);
  }

 private:
  std::vector<Var> rest_;
};

PreNormResidual attention_of(bool causal) {
  return {LayerNorm(kWidth), MultiHeadAttention({.width = kWidth, .heads = 2, .causal = causal}), 0};
}
PreNormResidual fed_forward() {
  return {LayerNorm(kWidth), FeedForward({.width = kWidth, .inner = 7, .activation = Activation::Kind::relu}), 0};
}
PreNormResidual attention_to_memory() { return {LayerNorm(kWidth), CrossAttention({.width = kWidth, .heads = 2}), 0}; }

void expect_near(const Var& found, const Var& expected) {
  const auto values = found.value().to_vector(), wanted = expected.value().to_vector();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], wanted[i], 1e-12) << "element " << i;
}

constexpr TransformerLayerOptions kOfMasks{.width = kWidth, .heads = 2, .inner = 7};

TEST(TransformerEncoderLayer, WithATriangleAsItsMaskIsCausal) {
  const TransformerEncoderLayer layer(kOfMasks);
  const Tensor x = normal({2, 4, kWidth}, "x"), seen = triangle(4, 4);
  ByHand hand(layer);
  const Var expected = hand(fed_forward(), {hand(attention_of(true), {x})});
  expect_near(layer.forward(call_of(layer, {x, seen})), expected);
  const Tensor added = where(seen, zeros({4, 4}, DType::f64), -std::numeric_limits<double>::infinity());
  expect_near(layer.forward(call_of(layer, {x, added})), expected);
}

TEST(TransformerEncoderLayer, TakesLengthsAndAMask) {
  const TransformerEncoderLayer layer(kOfMasks);
  const Tensor x = normal({2, 4, kWidth}, "x"), mask = normal({2, 1, 4, 4}, "mask"), ends = lengths({3, 4});
  ByHand hand(layer);
  const Var expected = hand(fed_forward(), {hand(attention_of(false), {x, ends, mask})});
  expect_near(layer.forward(call_of(layer, {x, ends, mask})), expected);
}

TEST(TransformerDecoderLayer, TakesAMaskOfItsOwnPairsAndOneOfPairsWithTheMemory) {
  const TransformerDecoderLayer layer(kOfMasks);
  const Tensor x = normal({2, 4, kWidth}, "x"), memory = normal({2, 5, kWidth}, "memory"), ends = lengths({3, 4}),
               own = normal({4, 4}, "own");
  const Tensor of_memory = triangle(4, 5, 1), memory_ends = lengths({5, 2}), all = full({4, 4}, 1, DType::u8);
  const auto y = [&](std::vector<Var> inputs) { return layer.forward(call_of(layer, std::move(inputs))); };
  const auto by_hand = [&](std::vector<Var> beside_x, std::vector<Var> beside_memory, std::vector<Var> beside_fed) {
    ByHand hand(layer);
    beside_x.insert(beside_x.begin(), x);
    beside_memory.insert(beside_memory.begin(), {hand(attention_of(true), beside_x), memory});
    beside_fed.insert(beside_fed.begin(), hand(attention_to_memory(), beside_memory));
    return hand(fed_forward(), beside_fed);
  };
  expect_near(y({x, memory, own}), by_hand({own}, {}, {}));
  expect_near(y({x, memory, all, of_memory}), by_hand({}, {of_memory}, {}));
  expect_near(y({x, memory, memory_ends, own}), by_hand({own}, {memory_ends}, {}));
  expect_near(y({x, memory, memory_ends, ends, own, of_memory}), by_hand({ends, own}, {memory_ends, ends, of_memory}, {ends}));
  expect_near(y({x, memory, triangle(4, 4)}), y({x, memory}));
}

TEST(TransformerLayers, NameMasksThatDoNotFit) {
  const TransformerEncoderLayer encoder(kOfMasks);
  const TransformerDecoderLayer decoder(kOfMasks);
  const Tensor x = normal({2, 4, kWidth}, "x"), mask = full({4, 4}, 1, DType::u8), ends = lengths({4, 4});
  const auto failing = [&](const Module& layer, std::vector<Var> inputs, std::initializer_list<std::string> words) {
    expect_error<UsageError>([&] { layer.forward(call_of(layer, inputs)); }, words);
  };
  failing(encoder, {x, mask, ends}, {"TransformerEncoderLayer: needs at most 1 inputs of lengths, then", "got i32 [2]", "as input 2"});
  failing(encoder, {x, mask, mask}, {"TransformerEncoderLayer", "at most 1 masks of pairs", "as input 2"});
  failing(decoder, {x, x, mask, ends}, {"TransformerDecoderLayer: needs at most 2 inputs of lengths, then", "as input 3"});
  failing(decoder, {x, x, full({4, 5}, 1, DType::u8)}, {"[4, 4]", "got [4, 5]"});
}

}  // namespace
}  // namespace sluice::layers
