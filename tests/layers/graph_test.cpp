#include "layers/graph.h"

#include <gtest/gtest.h>

#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

TEST(Graph, NamesParametersByNode) {
  Graph graph;
  const Value x = graph.input("x", {4});
  graph.add("first", FeedForward({.width = 4, .inner = 8}), x);
  std::vector<std::string> names;
  for (const auto& parameter : graph.parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first.in.weight", "first.in.bias", "first.out.weight", "first.out.bias"}));
  EXPECT_EQ(graph.parameter_count(), 4 * 8 + 8 + 8 * 4 + 4);
}

TEST(Graph, RefusesNamesThatAreTakenAndValuesOfOthers) {
  Graph graph;
  const Value x = graph.input("x", {4});
  graph.add("a", Linear(4, 4), x);
  expect_error<UsageError>([&] { graph.add("a", Linear(4, 4), x); }, {"the name 'a' is taken"});
  expect_error<UsageError>([&] { graph.add("b", Linear(4, 4), Value{7}); }, {"node 'b'"});
  expect_error<UsageError>([&] { graph.input("late"); }, {"before the first node"});
  expect_error<UsageError>([&] { graph.loss_node(); }, {"has no loss"});
}

TEST(Graph, TiesParametersOfEqualShape) {
  Graph graph;
  const Value ids = graph.input("ids", {4}, DType::i32);
  const Value x = graph.add("embedding", Embedding(7, 3), ids);
  const Value y = graph.add("middle", Linear(3, 3), x);
  graph.add("logits", Linear(3, 7, false), y);
  expect_error<UsageError>([&] { graph.tie("embedding.weight", "middle.weight"); }, {"needs equal shapes, got [7, 3]"});
  expect_error<UsageError>([&] { graph.tie("embedding.weigth", "logits.weight"); }, {"did you mean 'embedding.weight'?"});
  graph.tie("embedding.weight", "logits.weight");
  EXPECT_EQ(graph.parameters().size(), 3u);
  EXPECT_EQ(graph.parameters()[0].nodes, (std::vector<int>{0, 2}));
  EXPECT_EQ(graph.nodes()[2].parameters, (std::vector<int>{0}));
  EXPECT_EQ(graph.parameter_count(), 21 + 12);
}

TEST(Graph, HasAPartOfWhatAValueDependsOn) {
  Graph graph;
  const Value source = graph.input("source", {4}, DType::i32), target = graph.input("target", {4}, DType::i32);
  const Value label = graph.input("label", {4}, DType::i32);
  const Value memory = graph.add("encoder", Linear(3, 3), graph.add("source_embedding", Embedding(7, 3), source));
  const Value x = graph.add("target_embedding", Embedding(7, 3), target);
  graph.add("aside", Linear(3, 2), x);
  const Value logits = graph.add("logits", Linear(3, 7, false), graph.add("sum", Residual(ReLU(), 0), {x, memory}));
  graph.tie("source_embedding.weight", "target_embedding.weight");
  graph.tie("source_embedding.weight", "logits.weight");
  graph.output(logits);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, label}));
  const auto names_of = [](const auto& all) {
    std::vector<std::string> names;
    for (const auto& one : all) names.push_back(one.name);
    return names;
  };
  using Names = std::vector<std::string>;

  const Graph whole = graph.upstream_of(logits.id);
  EXPECT_EQ(names_of(whole.inputs()), (Names{"source", "target"}));
  EXPECT_EQ(names_of(whole.nodes()), (Names{"source_embedding", "encoder", "target_embedding", "sum", "logits"}));
  EXPECT_EQ(names_of(whole.parameters()), (Names{"source_embedding.weight", "encoder.weight", "encoder.bias"}));
  EXPECT_EQ(whole.parameters()[0].nodes, (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(whole.output_node(), 4);
  EXPECT_FALSE(whole.has_loss());

  const Graph part = graph.upstream_of(logits.id, {memory.id});
  EXPECT_EQ(names_of(part.inputs()), (Names{"target", "encoder"}));
  EXPECT_EQ(part.inputs()[1].sample_shape, (Shape{4, 3}));
  EXPECT_EQ(names_of(part.nodes()), (Names{"target_embedding", "sum", "logits"}));
  EXPECT_EQ(names_of(part.parameters()), (Names{"source_embedding.weight"}));
  expect_error<UsageError>([&] { graph.upstream_of(source.id); }, {"value of a node"});
  expect_error<UsageError>([&] { graph.upstream_of(logits.id, {logits.id}); }, {"value of a node"});
}

TEST(CrossEntropy, WeighsTheTargetsThatCount) {
  const Tensor targets = tensor_of({1, -100, 2, -100}, {4}, DType::i32);
  EXPECT_EQ(CrossEntropy().loss_weight({Tensor(), targets}, targets.dim(0)), 2);
  expect_error<UsageError>([&] { ReLU().loss_weight({}, 1); }, {"needs a loss module"});
}

}  // namespace
}  // namespace sluice::layers
