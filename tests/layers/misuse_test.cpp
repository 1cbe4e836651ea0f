// What a careless or curious user of modules and graphs may write: a clear error, or it works.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "layers/attention.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "layers/pooling.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

class Sum : public Module {
 public:
  InputCount input_count() const override { return {0, InputCount::kAny}; }
  Var forward(const Call& call) const override {
    Var sum(full({}, 0, DType::f32, call.inputs[0].value().device_ptr()));
    for (const Var& x : call.inputs) sum = add(sum, x);
    return sum;
  }
};

/// Asks for a child that it does not have.
class Childless : public Composite {
 public:
  explicit Childless(int number) : number_(number) {}
  Var forward(const Call& call) const override { return run(call, number_, call.inputs); }

 private:
  int number_;
};

/// Fails in a way of its own.
class Throwing : public Module {
 public:
  Var forward(const Call&) const override { throw std::runtime_error("of the module's own"); }
};

Call call_on(const Shape& shape) {
  Call call;
  call.inputs = {Var(full(shape, 1))};
  return call;
}

TEST(Misuse, ChildrenThatAreNotThereAreNamed) {
  for (int number : {-1, 0, 7})
    expect_error<UsageError>([&] { Childless(number).forward(call_on({1, 4})); }, {"no child " + std::to_string(number)});
  Sequence first;
  const Sequence second = std::move(first).then("relu", ReLU());
  expect_error<UsageError>([&] { first.forward(call_on({1, 4})); }, {"at least one module"});
  EXPECT_EQ(second.forward(call_on({1, 4})).value().to_vector(), std::vector<double>(4, 1));
}

/// y = gain x + offset, read by name; the offset is a buffer.
class Affine : public Module {
 public:
  explicit Affine(std::string gain = "gain") : gain_(std::move(gain)) {}
  std::vector<ParameterSpec> parameters() const override {
    return {{"offset", {1}, Initializer::constant(3), false, false}, {"gain", {1}, Initializer::constant(2)}};
  }
  Var forward(const Call& call) const override { return add(mul(call.inputs[0], parameter(call, gain_)), parameter(call, "offset")); }

 private:
  std::string gain_;
};

TEST(Misuse, ParametersThatAreNotThereAreNamed) {
  Call call = call_on({1, 4});
  call.parameters = {Var(full({1}, 3)), Var(full({1}, 2))};
  EXPECT_EQ(Affine().forward(call).value().to_vector(), std::vector<double>(4, 5));
  expect_error<UsageError>([&] { Affine("gian").forward(call); }, {"Affine", "no parameter 'gian'", "did you mean 'gain'"});
  call.parameters.pop_back();
  expect_error<UsageError>([&] { Affine().forward(call); }, {"reads its parameter 1, got 1 parameters"});
}

TEST(Misuse, BuffersAreFrozenFromTheStart) {
  Graph graph;
  graph.add("affine", Affine(), graph.input("x", {4}));
  EXPECT_TRUE(graph.parameters()[0].frozen);
  EXPECT_FALSE(graph.parameters()[1].frozen);
}

TEST(Misuse, AResidualBranchOfAnotherShapeIsNotRepeated) {
  Graph graph;
  const Value x = graph.input("x", {4});
  expect_error<UsageError>([&] { graph.add("a", Residual(Linear(4, 1), 0), x); }, {"node 'a'", "[24, 1] beside [24, 4]"});
  expect_error<UsageError>([&] { graph.add("b", Residual(Linear(4, 1), 0.5), x); }, {"node 'b'", "[24, 1] beside [24, 4]"});
}

TEST(Misuse, TargetsThatANodeMakesAreNamed) {
  expect_error<UsageError>([] { CrossEntropy().loss_weight({Tensor(), Tensor()}, 1); }, {"CrossEntropy", "an input of the graph"});
  expect_error<UsageError>([] { CrossEntropy().loss_weight({}, 1); }, {"CrossEntropy", "an input of the graph"});
}

TEST(Misuse, GenerationNeedsCausalAttention) {
  const MultiHeadAttention attention({.width = 4, .heads = 2, .causal = false});
  KeyValueCache cache{.capacity = 8};
  Call call = call_on({1, 3, 4});
  call.training = false;
  for (const auto& spec : attention.parameters()) call.parameters.emplace_back(zeros(spec.shape));
  EXPECT_EQ(attention.forward(Call(call)).shape(), (Shape{1, 3, 4}));
  call.cache = &cache;
  expect_error<UsageError>([&] { attention.forward(call); }, {"causal"});
}

TEST(Misuse, ACallServesTwoForwardsWhenItIsCopied) {
  const auto module = Sequence().then("a", Dropout(0.5)).then("b", Dropout(0.5));
  const Call call = call_on({1, 64});
  EXPECT_EQ(module.forward(Call(call)).value().to_vector(), module.forward(Call(call)).value().to_vector());
}

TEST(Misuse, ANodeMayReadAValueTwiceAndAHundredValues) {
  Graph graph;
  std::vector<Value> many;
  for (int i = 0; i < 100; ++i) many.push_back(graph.input(join("x", i), {4}));
  graph.add("hundred", Sum(), many);
  graph.add("twice", Sum(), {many[0], many[0]});
  EXPECT_EQ(graph.nodes()[0].inputs.size(), 100u);
  EXPECT_EQ(graph.nodes()[1].inputs, (std::vector<int>{0, 0}));
}

TEST(Misuse, ErrorsOfAModulesOwnComeOutAndLeaveTheGraphAsItWas) {
  Graph graph;
  const Value x = graph.input("x", {4});
  EXPECT_THROW(graph.add("a", Throwing(), x), std::runtime_error);
  expect_error<UsageError>([&] { graph.add("b", Sum(), std::vector<Value>{}); }, {"node 'b'", "input 0"});
  graph.add("a", ReLU(), x);
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Misuse, InputsAfterTheFirstNodeAreRefusedInBothForms) {
  Graph graph;
  graph.add("a", ReLU(), graph.input("x", {4}));
  expect_error<UsageError>([&] { graph.input("late"); }, {"'late'", "before the first node"});
  expect_error<UsageError>([&] { graph.input("late", {4}); }, {"'late'", "before the first node"});
  EXPECT_EQ(graph.inputs().size(), 1u);
}

TEST(Misuse, SizesThatNoComputerHoldsAreAnErrorAndNoOverflow) {
  Graph graph;
  const Value x = graph.input("x", {int64_t{1} << 40});
  expect_error<UsageError>([&] { graph.add("a", Linear(int64_t{1} << 40, int64_t{1} << 40), x); }, {"63 bits"});
  expect_error<UsageError>([&] { graph.input("y", {int64_t{1} << 62}); }, {"63 bits"});
  EXPECT_EQ(graph.inputs().size(), 1u);
}

TEST(Misuse, PositionsOfAnotherWidthAreNotRepeated) {
  Graph graph;
  const Value narrow = graph.input("narrow", {4, 1}), row = graph.input("row", {1}), ids = graph.input("ids", {4, 3}, DType::i32);
  for (const auto kind : {Positions::Kind::learned, Positions::Kind::sinusoidal}) {
    const Positions positions(kind, 30, 3);
    expect_error<UsageError>([&] { graph.add("a", positions, narrow); }, {"Positions: needs floats [B, T, 3], got f32 [24, 4, 1]"});
    expect_error<UsageError>([&] { graph.add("a", positions, row); }, {"Positions: needs floats [B, T, 3], got f32 [24, 1]"});
    expect_error<UsageError>([&] { graph.add("a", positions, ids); }, {"Positions: needs floats [B, T, 3], got i32 [24, 4, 3]"});
  }
}

TEST(Misuse, WholeNumbersAreNotNormed) {
  Graph graph;
  const Value ids = graph.input("ids", {4}, DType::i32);
  expect_error<UsageError>([&] { graph.add("a", LayerNorm(4), ids); }, {"layer_norm: needs floats", "got i32 [24, 4]"});
  expect_error<UsageError>([&] { graph.add("a", RMSNorm(4), ids); }, {"rms_norm: needs floats", "got i32 [24, 4]"});
}

TEST(Misuse, DeviationsBelowZeroAreRefused) {
  for (const double deviation : {-0.02, std::nan("")}) {
    expect_error<UsageError>([=] { Linear(2, 2, true, deviation); }, {"Linear", "standard deviation >= 0"});
    expect_error<UsageError>([=] { FeedForward({.width = 2, .inner = 2, .output_deviation = deviation}); }, {"standard deviation >= 0"});
    expect_error<UsageError>([=] { MultiHeadAttention({.width = 2, .heads = 1, .standard_deviation = deviation}); },
                             {"standard deviation >= 0"});
  }
}

}  // namespace
}  // namespace sluice::layers
