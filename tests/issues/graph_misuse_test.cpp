// What a graph took without a word and what then trained something else, or crashed.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "layers/attention.h"
#include "layers/convolution.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "layers/pooling.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

class Nothing : public Module {
 public:
  Var forward(const Call&) const override { return {}; }
};

/// Two parameters, of equal shape unless told otherwise.
class Pair : public Module {
 public:
  std::vector<ParameterSpec> parameters() const override {
    return {{"first", {4}, Initializer::ones()}, {"second", {4}, Initializer::ones()}};
  }
  Var forward(const Call& call) const override { return mul(mul(call.inputs[0], call.parameters[0]), call.parameters[1]); }
};

/// Looks at the elements of its input, which no counting device has.
class Largest : public Module {
 public:
  Var forward(const Call& call) const override {
    double largest = 0;
    for (double value : call.inputs[0].value().to_vector()) largest = std::max(largest, std::abs(value));
    return scale(call.inputs[0], 1 / largest);
  }
};

/// A parameter that starts with the given deviation.
class Started : public Module {
 public:
  explicit Started(double deviation) : deviation_(deviation) {}
  std::vector<ParameterSpec> parameters() const override { return {{"weight", {4}, Initializer::normal(deviation_)}}; }
  Var forward(const Call& call) const override { return mul(call.inputs[0], call.parameters[0]); }

 private:
  double deviation_;
};

/// A parameter of that shape.
class Shaped : public Module {
 public:
  explicit Shaped(Shape shape) : shape_(std::move(shape)) {}
  std::vector<ParameterSpec> parameters() const override { return {{"weight", shape_, Initializer::zeros()}}; }
  Var forward(const Call& call) const override { return call.inputs[0]; }

 private:
  Shape shape_;
};

struct Classifier {
  Graph graph;
  Value x = graph.input("x", {4}), label = graph.input("label", {}, DType::i32);
};

Batch batch() {
  return batch_of({{"x", full({2, 4}, 0.5)}, {"unknown", full({2, 4}, 0.5)}, {"label", tensor_of({0, 1}, {2}, DType::i32)}});
}

std::string hash_after_a_step(const Graph& graph) {
  parallel::Trainer trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 2}), SGD({.lr = 0.1}), {.seed = 1});
  trainer.step(batch());
  return trainer.weights_hash();
}

TEST(GraphMisuse, TwoLossesAreRefusedAndOutputsAreOfNodes) {
  Classifier of;
  const Value a = of.graph.add("a", Linear(4, 4), of.x);
  const Value first = of.graph.add("first", CrossEntropy(), {a, of.label}), second = of.graph.add("second", CrossEntropy(), {a, of.label});
  of.graph.loss(first);
  of.graph.loss(first);
  expect_error<UsageError>([&] { of.graph.loss(second); }, {"'first' already", "'second'"});
  of.graph.output(a);
  of.graph.output(a);
  expect_error<UsageError>([&] { of.graph.loss(of.x); }, {"the loss", "got an input"});
  expect_error<UsageError>([&] { of.graph.output(of.x); }, {"an output", "got an input"});
  EXPECT_EQ(of.graph.loss_node(), 1);
  EXPECT_EQ(of.graph.output_nodes(), std::vector<int>{0});
}

TEST(GraphMisuse, ALossOfSeveralNumbersIsRefused) {
  Classifier of;
  const Value a = of.graph.add("a", Linear(4, 4), of.x);
  expect_error<UsageError>([&] { of.graph.loss(a); }, {"'a'", "single number", "[24, 4]"});
}

TEST(GraphMisuse, AGraphWithoutLossIsRefused) {
  Classifier of;
  expect_error<UsageError>([&] { parallel::plan(of.graph, devices("cpu:0"), {.batch = 2}); }, {"needs nodes, has none"});
  of.graph.add("a", Linear(4, 4), of.x);
  parallel::Plan by_hand;
  by_hand.devices = devices("cpu:0");
  by_hand.partition = parallel::Partition{{1}};
  by_hand.rematerialize = {false};
  expect_error<UsageError>([&] { parallel::Trainer(of.graph, by_hand, SGD({.lr = 0.1})); }, {"has no loss"});
}

TEST(GraphMisuse, TwoParametersOfOneNodeAreNotTied) {
  Classifier of;
  of.graph.add("b", Pair(), of.graph.add("a", Pair(), of.x));
  expect_error<UsageError>([&] { of.graph.tie("a.first", "a.second"); }, {"node 'a'", "'a.first'", "'a.second'"});
  of.graph.tie("a.first", "b.first");
  expect_error<UsageError>([&] { of.graph.tie("a.first", "b.second"); }, {"node 'b'", "'b.second'"});
  expect_error<UsageError>([&] { of.graph.tie("a.first", "a.first"); }, {"'a.first'"});
  expect_error<UsageError>([&] { of.graph.tie("a.second", "b.first"); }, {"'a.second'", "'b.first' (tied to 'a.first')"});
  EXPECT_EQ(of.graph.parameters().size(), 3u);
}

TEST(GraphMisuse, ShapesThatDoNotFitAreRefusedWhereTheyAreWritten) {
  Graph graph;
  const Value x = graph.input("x", {5}), image = graph.input("image", {8, 8, 3}), tokens = graph.input("tokens", {6}, DType::i32);
  expect_error<UsageError>([&] { graph.add("a", Linear(4, 4), x); }, {"node 'a'", "Linear", "needs floats [..., 4], got f32 [24, 5]"});
  expect_error<UsageError>([&] { graph.add("b", Conv2d(4, 4, {}), image); }, {"node 'b'", "Conv2d", "[24, 8, 8, 3]"});
  expect_error<UsageError>([&] { graph.add("c", MaxPool2d({.stride_h = 0}), image); }, {"node 'c'", "strides of at least 1"});
  expect_error<UsageError>([&] { graph.add("d", Linear(6, 6), tokens); }, {"node 'd'", "i32"});
  expect_error<UsageError>([&] { graph.add("e", Embedding(7, 3), x); }, {"node 'e'", "f32"});
  const Value h = graph.add("h", Linear(5, 4), x);
  expect_error<UsageError>([&] { graph.add("i", Sequence().then("a", Linear(4, 3)).then("b", Linear(4, 3)), h); }, {"node 'i'", "[24, 3]"});
  expect_error<UsageError>([&] { graph.add("j", MultiHeadAttention({.width = 4, .heads = 2}), h); }, {"node 'j'"});
  expect_error<UsageError>([&] { graph.add("k", Nothing(), h); }, {"node 'k'", "Nothing", "got none"});
  EXPECT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.parameters().size(), 2u);
}

TEST(GraphMisuse, AModuleThatMakesNothingIsNamedAtTheFirstStepWhereShapesAreUnknown) {
  Graph graph;
  const Value x = graph.input("unknown"), label = graph.input("label", {}, DType::i32);
  graph.loss(graph.add("loss", CrossEntropy(), {graph.add("b", Nothing(), graph.add("a", Linear(4, 4), x)), label}));
  expect_error<UsageError>([&] { hash_after_a_step(graph); }, {"needs to return a value", "node 'b'"});
}

TEST(GraphMisuse, AModuleThatLooksAtElementsIsTaken) {
  Classifier of;
  const Value a = of.graph.add("b", Linear(4, 3), of.graph.add("a", Largest(), of.x));
  of.graph.loss(of.graph.add("loss", CrossEntropy(), {a, of.label}));
  EXPECT_FALSE(hash_after_a_step(of.graph).empty());
}

TEST(GraphMisuse, AStartThatIsNoNumberIsRefused) {
  Classifier of;
  for (double deviation : std::vector<double>{NAN, INFINITY, -1})
    expect_error<UsageError>([&] { of.graph.add("a", Started(deviation), of.x); }, {"node 'a'", "'weight'", "standard deviation"});
  for (double weight : std::vector<double>{NAN, INFINITY, -1})
    expect_error<UsageError>([&] { CrossEntropy(0, weight); }, {"auxiliary weight"});
}

/// It was trained, and saved without its tensor: then the checkpoint was refused as one of another model.
TEST(GraphMisuse, AParameterWithoutElementsIsRefused) {
  Classifier of;
  for (const Shape& shape : {Shape{0}, Shape{0, 8}, Shape{8, 0}})
    expect_error<UsageError>([&] { of.graph.add("a", Shaped(shape), of.x); }, {"node 'a'", "'weight'", "at least one element", "leave it"});
  of.graph.add("a", Shaped({}), of.x);
}

TEST(GraphMisuse, OneModuleServesManyNodesAndGraphs) {
  const Linear linear(4, 4);
  Classifier one, other;
  for (auto* of : {&one, &other}) {
    const Value a = of->graph.add("b", linear, of->graph.add("a", linear, of->x));
    of->graph.loss(of->graph.add("loss", CrossEntropy(), {a, of->label}));
    EXPECT_EQ(of->graph.parameters().size(), 4u);
  }
  EXPECT_EQ(hash_after_a_step(one.graph), hash_after_a_step(other.graph));
}

}  // namespace
}  // namespace sluice::layers
