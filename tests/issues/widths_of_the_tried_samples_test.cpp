// Shapes that fit only where a width is the number of samples, such as [B, 24] * [B], were taken, as graphs are tried with 24 samples; a
// micro-batch of 24 then mixed them without a word, and others were refused at the first step.
#include <gtest/gtest.h>

#include "layers/combine.h"
#include "layers/cross_entropy.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "layers/transformer_layer.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

constexpr int64_t kWidth = ValueType::kSamples;

TEST(WidthsOfTheTriedSamples, DoNotHideShapesThatDoNotFit) {
  Graph graph;
  const Value x = graph.input("x", {kWidth}), tokens = graph.input("tokens", {kWidth, 4}), number = graph.input("number", {});
  const Value column = graph.input("column", {1}), seen = graph.input("seen", {kWidth}, DType::u8);
  expect_error<UsageError>(
      [&] {
        graph.add("a", Multiply(), {x, number});
      },
      {"'a'", "Multiply", "tried with 48 samples", "[48, 24] and [48]"});
  const TransformerEncoderLayer layer({.width = 4, .heads = 2});
  expect_error<UsageError>([&] { graph.add("a", layer, {tokens, seen}); }, {"'a'", "tried with 48 samples", "[24, 24]", "got [48, 24]"});
  const Value pairs = graph.add("pairs", Add(), {column, number});
  expect_error<UsageError>([&] { graph.add("a", Linear(kWidth, 2), pairs); }, {"'a'", "Linear", "tried with 48 samples", "[48, 48]"});
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(WidthsOfTheTriedSamples, AreTaken) {
  Graph graph;
  const Value x = graph.input("x", {kWidth, kWidth}), gate = graph.input("gate", {kWidth, 1}), seen = graph.input("seen", {kWidth, kWidth});
  const Value label = graph.input("label", {kWidth}, DType::i32), unknown = graph.input("unknown");
  Value y = graph.add("gated", Multiply(), {x, gate});
  y = graph.add("layer", TransformerEncoderLayer({.width = kWidth, .heads = 2}), {y, seen});
  graph.output(y);
  graph.add("of_unknown", Add(), {y, unknown});
  graph.loss(graph.add("loss", CrossEntropy(), {graph.add("logits", Linear(kWidth, kWidth), y), label}));
}

}  // namespace
}  // namespace sluice::layers
