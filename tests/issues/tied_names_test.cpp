// Freezing a head whose weight is tied left the weight out, because it goes by the name of the earlier node.
#include <gtest/gtest.h>

#include "layers/graph.h"
#include "layers/linear.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

Graph tied() {
  Graph graph;
  const auto x = graph.input("x", {4});
  graph.output(graph.add("second", Linear(4, 4), graph.add("first", Linear(4, 4), x)));
  graph.tie("first.weight", "second.weight");
  return graph;
}

bool is_frozen(const Graph& graph, const std::string& name) {
  for (const auto& parameter : graph.parameters())
    if (parameter.name == name) return parameter.frozen;
  throw UsageError("no parameter '" + name + "'");
}

TEST(TiedNames, FreezeTheParameterByAnyOfThem) {
  for (const char* pattern : {"second.*", "second.weight", "first.*"}) {
    Graph graph = tied();
    graph.freeze(pattern);
    EXPECT_TRUE(is_frozen(graph, "first.weight")) << pattern;
    EXPECT_FALSE(is_frozen(graph, std::string(pattern).starts_with("first") ? "second.bias" : "first.bias")) << pattern;
  }
}

TEST(TiedNames, StartTheParameterByAnyOfThem) {
  Graph graph = tied();
  graph.initialize("second.weight", Initializer::constant(3));
  EXPECT_EQ(graph.parameters()[0].name, "first.weight");
  const Initializer& start = graph.parameters()[0].spec.initializer;
  EXPECT_EQ(start.kind, Initializer::constant(3).kind);
}

TEST(TiedNames, AreTiedOnce) {
  Graph graph = tied();
  expect_error<UsageError>([&] { graph.tie("first.weight", "second.weight"); },
                           {"'first.weight' and 'second.weight' are one parameter already"});
}

TEST(TiedNames, GoOnThroughAnotherTie) {
  Graph graph;
  const auto x = graph.input("x", {4});
  graph.output(graph.add("c", Linear(4, 4), graph.add("b", Linear(4, 4), graph.add("a", Linear(4, 4), x))));
  graph.tie("b.weight", "c.weight");
  graph.tie("a.weight", "b.weight");
  graph.freeze("c.weight");
  EXPECT_TRUE(is_frozen(graph, "a.weight"));
}

}  // namespace
}  // namespace sluice::layers
