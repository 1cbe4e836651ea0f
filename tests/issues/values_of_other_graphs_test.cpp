// Graph took values of another graph for its own values of the same number.
#include <gtest/gtest.h>

#include "layers/cross_entropy.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

TEST(ValuesOfOtherGraphs, AreRefused) {
  Graph graph, other;
  const Value x = graph.input("x", {4}), foreign = other.input("foreign", {4});
  const Value foreign_node = other.add("node", Linear(4, 4), foreign);
  graph.add("a", Linear(4, 4), x);
  expect_error<UsageError>([&] { graph.add("b", Linear(4, 4), foreign); }, {"node 'b'", "this graph"});
  expect_error<UsageError>([&] { graph.add("c", CrossEntropy(), {x, foreign}); }, {"node 'c'", "this graph"});
  expect_error<UsageError>([&] { graph.loss(foreign_node); }, {"this graph"});
  expect_error<UsageError>([&] { graph.output(foreign_node); }, {"this graph"});
}

TEST(ValuesOfOtherGraphs, AreThoseMadeInACopyAfterItWasCopied) {
  Graph graph;
  const Value x = graph.input("x", {4});
  const Value a = graph.add("a", Linear(4, 4), x);
  Graph copy = graph;
  const Value of_copy = copy.add("b", Linear(4, 4), a);
  const Value own = graph.add("c", ReLU(), a);
  expect_error<UsageError>([&] { graph.add("d", ReLU(), of_copy); }, {"node 'd'", "this graph"});
  expect_error<UsageError>([&] { copy.add("d", ReLU(), own); }, {"node 'd'", "this graph"});
  Graph moved = std::move(graph);
  moved.output(moved.add("d", ReLU(), own));
  EXPECT_EQ(moved.nodes()[moved.output_node()].inputs, std::vector<int>{2});
}

TEST(ValuesOfOtherGraphs, MadeByHandOrNeverMadeAreRefused) {
  Graph graph;
  graph.input("x", {4});
  expect_error<UsageError>([&] { graph.add("a", ReLU(), Value()); }, {"node 'a'"});
  expect_error<UsageError>([&] { graph.add("a", ReLU(), Value{0}); }, {"node 'a'"});
  expect_error<UsageError>([&] { graph.loss(Value{1}); }, {"loss"});
}

}  // namespace
}  // namespace sluice::layers
