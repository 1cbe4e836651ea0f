// Checkpoints and the weights hash keep tensors by name: of two with one name they dropped one without a word.
#include <gtest/gtest.h>

#include "layers/batch_norm.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

/// A module whose parameters have the given names.
class Named : public Module {
 public:
  explicit Named(std::vector<std::string> names) : names_(std::move(names)) {}
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs;
    for (const auto& name : names_) specs.push_back({name, {4}, Initializer::zeros()});
    return specs;
  }
  Var forward(const Call& call) const override { return call.inputs[0]; }

 private:
  std::vector<std::string> names_;
};

TEST(TensorsOfOneName, InTwoNodesAreRefusedWithBoth) {
  Graph graph;
  const Value x = graph.input("x", {4});
  graph.add("a", Sequence().then("b", Linear(4, 4)), x);
  expect_error<UsageError>([&] { graph.add("a.b", Linear(4, 4), x); }, {"node 'a.b'", "'a.b.weight'", "node 'a'"});
  graph.add("c.d", Linear(4, 4), x);
  expect_error<UsageError>([&] { graph.add("c", Sequence().then("d", Linear(4, 4)), x); }, {"node 'c'", "'c.d.weight'", "node 'c.d'"});
}

TEST(TensorsOfOneName, InTwoChildrenAreRefusedWithBoth) {
  expect_error<UsageError>([] { Sequence().then("b", Linear(4, 4)).then("b", Linear(4, 4)); },
                           {"'b.weight'", "child 0 'b'", "child 1 'b'"});
  expect_error<UsageError>([] { Sequence().then("", Linear(4, 4)).then("relu", ReLU()).then("", Linear(4, 4)); },
                           {"'weight'", "child 0 ''", "child 2 ''"});
  expect_error<UsageError>([] { Sequence().then("a", Sequence().then("b", Linear(4, 4))).then("a.b", Linear(4, 4)); },
                           {"'a.b.weight'", "child 0 'a'", "child 1 'a.b'"});
  expect_error<UsageError>([] { Sequence().then("a", BatchNorm(4)).then("a", Named({"running_mean"})); }, {"'a.running_mean'"});
}

TEST(TensorsOfOneName, InOneModuleAreRefused) {
  Graph graph;
  const Value x = graph.input("x", {4});
  expect_error<UsageError>([&] { graph.add("a", Named({"weight", "bias", "weight"}), x); }, {"node 'a'", "'a.weight'"});
  graph.add("norm", BatchNorm(4), x);
  expect_error<UsageError>([&] { graph.add("norm.running_variance", Named({""}), x); }, {"needs a name"});
}

TEST(TensorsOfOneName, LeaveTheGraphAsItWas) {
  Graph graph;
  const Value x = graph.input("x", {4});
  graph.add("a", Sequence().then("b", Linear(4, 4)), x);
  expect_error<UsageError>([&] { graph.add("a.b", Linear(4, 4), x); }, {"'a.b.weight'"});
  EXPECT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.parameters().size(), 2u);
  graph.add("a.b", Named({"gain"}), x);
  EXPECT_EQ(graph.parameters().back().name, "a.b.gain");
}

TEST(TensorsOfOneName, AreNotThoseOfChildrenWithoutTensors) {
  Graph graph;
  const Value x = graph.input("x", {4});
  graph.add("a", Sequence().then("relu", ReLU()).then("linear", Linear(4, 4)).then("relu", ReLU()), x);
  EXPECT_EQ(graph.parameters().size(), 2u);
}

TEST(Names, AreTextThatCheckpointsAndReportsCanHold) {
  for (const char* name : {"", "a\nb", "a\x1b[2J", "\x7f", "caf\xc3\xa9", "\xff"}) {
    Graph graph;
    expect_error<UsageError>([&] { graph.input(name); }, {"graph: needs a name"});
    const Value x = graph.input("x", {4});
    expect_error<UsageError>([&] { graph.add(name, Linear(4, 4), x); }, {"graph: needs a name"});
    expect_error<UsageError>([&] { graph.add("node", Named({name}), x); }, {"needs a name", "node 'node'"});
  }
}

TEST(Names, OfNodesDifferFromThoseOfInputs) {
  Graph graph;
  const Value x = graph.input("x", {4});
  expect_error<UsageError>([&] { graph.input("x"); }, {"'x' is taken"});
  expect_error<UsageError>([&] { graph.add("x", Linear(4, 4), x); }, {"'x' is taken"});
}

}  // namespace
}  // namespace sluice::layers
