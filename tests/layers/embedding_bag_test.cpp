#include "layers/embedding_bag.h"

#include <gtest/gtest.h>

#include "core/ops/copy.h"
#include "core/random.h"
#include "layers/graph.h"
#include "layers/losses.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::layers {
namespace {

using Kind = EmbeddingBag::Kind;

std::vector<double> output(Kind kind, const std::vector<Tensor>& inputs, DType dtype) {
  Call call;
  call.inputs = std::vector<Var>(inputs.begin(), inputs.end());
  call.parameters = {Var(tensor_of({1, 10, 2, 20, 4, 40}, {3, 2}, dtype))};
  return EmbeddingBag(kind, 3, 2).forward(call).value().to_vector();
}

TEST(EmbeddingBag, AddsOrAveragesRows) {
  const Tensor ids = tensor_of({0, 1, 2, 2, 0, 0}, {3, 2}, DType::i32), weights = tensor_of({1, 0, 0.5, 1.5, 0, 0}, {3, 2});
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    EXPECT_EQ(output(Kind::sum, {ids}, dtype), (std::vector<double>{3, 30, 8, 80, 2, 20}));
    EXPECT_EQ(output(Kind::mean, {ids}, dtype), (std::vector<double>{1.5, 15, 4, 40, 1, 10}));
    EXPECT_EQ(output(Kind::sum, {ids, weights}, dtype), (std::vector<double>{1, 10, 8, 80, 0, 0}));
    EXPECT_EQ(output(Kind::mean, {ids, weights}, dtype), (std::vector<double>{1, 10, 4, 40, 0, 0}));
    EXPECT_EQ(output(Kind::mean, {ids, cast(tensor_of({1, 0, 1, 1, 0, 0}, {3, 2}), DType::u8)}, dtype),
              (std::vector<double>{1, 10, 4, 40, 0, 0}));
  }
}

TEST(EmbeddingBag, AveragesWithWeightsBelowZero) {
  const Tensor ids = tensor_of({0, 1, 0, 1, 0, 1}, {3, 2}, DType::i32), weights = tensor_of({-1, -3, 1, -1, 3, -1}, {3, 2});
  EXPECT_EQ(output(Kind::mean, {ids, weights}, DType::f32), (std::vector<double>{1.75, 17.5, 0, 0, 0.5, 5}));
}

TEST(EmbeddingBag, HasTheGradientsOfItsValue) {
  for (const Kind kind : {Kind::sum, Kind::mean}) {
    Graph graph;
    const Value ids = graph.input("ids", {3}, DType::i32), weights = graph.input("weights", {3});
    const Value target = graph.input("target", {4}, DType::f64);
    const Value y = graph.add("bag", EmbeddingBag(kind, 5, 4), {ids, weights});
    graph.loss(graph.add("loss", MeanSquaredError(), {y, target}));
    const Tensor wanted = empty({2, 4}, DType::f64);
    fill_normal(wanted, 0, 1, random_key(1, "target"));
    const Tensor tokens = tensor_of({0, 4, 4, 1, 0, 3}, {2, 3}, DType::i32);
    sluice::testing::expect_gradients_like_differences(graph, {tokens, tensor_of({1, 2, 0.5, 1, 0, 3}, {2, 3}), wanted});
  }
}

TEST(EmbeddingBag, NamesShapesThatDoNotFit) {
  const Tensor ids = zeros({2, 3}, DType::i32);
  expect_error<UsageError>([&] { output(Kind::sum, {ids.reshape({6})}, DType::f32); }, {"EmbeddingBag", "[batch, tokens]", "[6]"});
  expect_error<UsageError>([&] { output(Kind::sum, {ids, zeros({3})}, DType::f32); }, {"EmbeddingBag", "[2, 3]", "[3]"});
}

}  // namespace
}  // namespace sluice::layers
