// A graph that was moved from kept its loss, the number of a node that it had no more: a new loss read beyond its nodes.
#include <gtest/gtest.h>

#include <utility>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

/// Builds a classifier, with a hidden layer where it is asked for, and returns its loss.
Value build(Graph& graph, bool hidden) {
  Value x = graph.input("x", {4});
  const Value label = graph.input("label", {}, DType::i32);
  if (hidden) x = graph.add("hidden", Linear(4, 4), x);
  const Value logits = graph.add("logits", Linear(4, 3), x), loss = graph.add("loss", CrossEntropy(), {logits, label});
  graph.output(logits);
  graph.loss(loss);
  return loss;
}

std::string hash_after_a_step(const Graph& graph) {
  const parallel::Plan plan = parallel::plan(graph, devices("cpu:0"), {.batch = 2});
  parallel::Trainer trainer(graph, plan, SGD({.lr = 0.1}));
  trainer.step(batch_of({{"x", randn({2, 4}, 1)}, {"label", zeros({2}, DType::i32)}}));
  return trainer.weights_hash();
}

/// Both ways to move.
Graph moved_by(bool assignment, Graph& from) {
  if (!assignment) return Graph(std::move(from));
  Graph to;
  build(to, false);
  to = std::move(from);
  return to;
}

TEST(AMovedGraph, LeavesOneThatIsAsNew) {
  Graph small, large;
  build(small, false);
  build(large, true);
  for (const bool assignment : {false, true}) {
    SCOPED_TRACE(assignment ? "assigned" : "constructed");
    Graph graph;
    const Value loss = build(graph, true);
    Graph to = moved_by(assignment, graph);
    EXPECT_EQ(hash_after_a_step(to), hash_after_a_step(large));
    EXPECT_NO_THROW(to.loss(loss)) << "its values went with it";

    EXPECT_FALSE(graph.has_loss());
    EXPECT_TRUE(graph.inputs().empty() && graph.nodes().empty() && graph.parameters().empty() && graph.output_nodes().empty());
    expect_error<UsageError>([&] { graph.loss_node(); }, {"has no loss"});
    expect_error<UsageError>([&] { graph.loss(loss); }, {"needs values that this graph made before"});
    const parallel::Plan plan = parallel::plan(small, devices("cpu:0"), {.batch = 2});
    expect_error<UsageError>([&] { parallel::Trainer(graph, plan, SGD({})); }, {"graph: needs nodes", "moved from"});
    expect_error<UsageError>([&] { parallel::plan(graph, devices("cpu:0"), {.batch = 2}); }, {"graph: needs nodes", "moved from"});
    build(graph, false);
    EXPECT_EQ(hash_after_a_step(graph), hash_after_a_step(small));
  }
}

}  // namespace
}  // namespace sluice::layers
