// CrossEntropy without its label, or any module that read an input that it was not given, read foreign memory.
#include <gtest/gtest.h>

#include "autograd/ops/elementwise.h"
#include "layers/batch_norm.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/feed_forward.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "models/amoebanet_cell.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

/// Takes two inputs and says so.
class Difference : public Module {
 public:
  InputCount input_count() const override { return {2, 2}; }
  Var forward(const Call& call) const override { return sub(call.inputs[0], call.inputs[1]); }
};

/// Takes two inputs and does not say so.
class Liar : public Module {
 public:
  Var forward(const Call& call) const override { return sub(call.inputs[0], call.inputs[1]); }
};

/// Gives its child too few inputs.
class Stingy : public Composite {
 public:
  Stingy() : child_(add("difference", Difference())) {}
  Var forward(const Call& call) const override { return run(call, child_, call.inputs); }

 private:
  int child_;
};

struct TwoValues {
  Graph graph;
  Value x = graph.input("x", {4}), y = graph.input("y", {4}), label = graph.input("label", {}, DType::i32);
};

TEST(ModuleInputs, TooFewAreRefusedWhenTheGraphIsBuilt) {
  TwoValues of;
  expect_error<UsageError>([&] { of.graph.add("loss", CrossEntropy(), of.x); }, {"node 'loss'", "CrossEntropy", "2 or 3 inputs", "got 1"});
  expect_error<UsageError>([&] { of.graph.add("d", Difference(), {of.x}); }, {"node 'd'", "Difference", "2 inputs", "got 1"});
  const std::initializer_list<Value> none{};
  expect_error<UsageError>([&] { of.graph.add("n", Linear(4, 4), none); }, {"node 'n'", "Linear", "1 input", "got 0"});
  expect_error<UsageError>([&] { of.graph.add("r", Residual(Linear(4, 4), 0), none); }, {"node 'r'", "Residual", "1 or 2 inputs", "got 0"});
  expect_error<UsageError>([&] { of.graph.add("s", Sequence().then("d", Difference()), of.x); }, {"node 's'", "Sequence", "2 inputs"});
  const models::Cell cell({.genotype = &models::normal_genotype(models::AmoebaNet::d), .last = 4, .before = 4, .filters = 4});
  expect_error<UsageError>([&] { of.graph.add("cell", cell, of.x); }, {"node 'cell'", "Cell", "2 inputs", "got 1"});
  EXPECT_TRUE(of.graph.nodes().empty());
}

TEST(ModuleInputs, TooManyAreRefusedWhenTheGraphIsBuilt) {
  TwoValues of;
  expect_error<UsageError>([&] { of.graph.add("n", Linear(4, 4), {of.x, of.y}); }, {"node 'n'", "Linear", "1 input", "got 2"});
  expect_error<UsageError>([&] { of.graph.add("loss", CrossEntropy(), {of.x, of.label, of.y, of.y}); }, {"2 or 3 inputs", "got 4"});
  expect_error<UsageError>([&] { of.graph.add("liar", Liar(), {of.x, of.y}); }, {"Liar", "1 input", "Module::input_count"});
}

TEST(ModuleInputs, ThatFitAreTaken) {
  TwoValues of;
  of.graph.add("d", Difference(), {of.x, of.y});
  of.graph.add("s", Sequence().then("d", Difference()).then("relu", ReLU()), {of.x, of.y});
  of.graph.add("r", Residual(Linear(4, 4), 0), {of.x, of.y});
  of.graph.add("vector", Difference(), std::vector<Value>{of.x, of.y});
  EXPECT_EQ(of.graph.nodes().size(), 4u);
}

TEST(ModuleInputs, ThatAModuleReadsWithoutSayingSoAreAnError) {
  const Tensor x = full({2, 4}, 1);
  Call call;
  call.inputs = {Var(x)};
  expect_error<UsageError>([&] { Liar().forward(call); }, {"input 1", "1"});
  expect_error<UsageError>([&] { Stingy().forward(call); }, {"'difference'", "Difference", "2 inputs", "got 1"});
  call.inputs = {};
  expect_error<UsageError>([&] { Liar().forward(call); }, {"got 0 inputs"});
  expect_error<UsageError>([&] { Residual(ReLU(), 0).forward(call); }, {"input"});
  call.inputs = {Var(x)};
  expect_error<UsageError>([&] { Linear(4, 4).forward(call); }, {"parameter 0"});
  expect_error<UsageError>([&] { BatchNorm(4).forward(call); }, {"parameter 0"});
}

TEST(ModuleInputs, OfASequenceWithoutModulesAreAnError) {
  TwoValues of;
  expect_error<UsageError>([&] { of.graph.add("empty", Sequence(), of.x); }, {"Sequence: needs at least one module"});
}

}  // namespace
}  // namespace sluice::layers
