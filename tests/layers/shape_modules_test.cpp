// Modules that reshape and combine values, activations and Lambda.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/operators.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "layers/activation.h"
#include "layers/combine.h"
#include "layers/graph.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "layers/model_digest.h"
#include "layers/reshape.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::layers {
namespace {

Call call_with(std::vector<Tensor> inputs) {
  Call call;
  call.inputs = std::vector<Var>(inputs.begin(), inputs.end());
  return call;
}

Tensor counted(const Shape& shape) {
  std::vector<double> all;
  for (int64_t i = 0; i < shape.elements(); ++i) all.push_back(static_cast<double>(i));
  return tensor_of(all, shape);
}

Shape shape_of(const Module& module, const Shape& x) { return module.forward(call_with({counted(x)})).shape(); }

TEST(Flatten, JoinsAxesOfTheSamples) {
  EXPECT_EQ(shape_of(Flatten(), {2, 3, 4, 5}), (Shape{2, 60}));
  EXPECT_EQ(shape_of(Flatten(), {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(shape_of(Flatten(2), {2, 3, 4, 5}), (Shape{2, 3, 20}));
  EXPECT_EQ(shape_of(Flatten(1, -2), {2, 3, 4, 5}), (Shape{2, 12, 5}));
  expect_error<UsageError>([] { Flatten(0); }, {"Flatten", "axis 1", "got 0"});
  expect_error<UsageError>([] { shape_of(Flatten(-2), {2, 3}); }, {"Flatten", "axis -2 of [2, 3]", "the batch"});
}

TEST(Reshape, KeepsTheBatchAndFindsOneExtent) {
  EXPECT_EQ(shape_of(Reshape({4, 3}), {2, 12}), (Shape{2, 4, 3}));
  EXPECT_EQ(shape_of(Reshape({-1, 6}), {2, 3, 4}), (Shape{2, 2, 6}));
  EXPECT_EQ(shape_of(Reshape({}), {2, 1}), (Shape{2}));
  EXPECT_EQ(shape_of(Reshape({-1}), {0, 3, 4}), (Shape{0, 12}));
  EXPECT_EQ(Reshape({2, 2}).forward(call_with({counted({2, 4})})).value().to_vector(), counted({8}).to_vector());
  expect_error<UsageError>([] { shape_of(Reshape({5, -1}), {2, 12}); }, {"Reshape", "[2, 12]", "[2, 5, 2]"});
  expect_error<UsageError>([] { shape_of(Reshape({-1, 0}), {2, 12}); }, {"Reshape", "[2, 12]"});
  expect_error<UsageError>([] { Reshape({-1, -1}); }, {"Reshape", "at most one -1"});
  expect_error<UsageError>([] { Reshape({-2}); }, {"Reshape", "extents >= 0"});
}

TEST(Combine, AddsMultipliesAndJoinsAnyNumberOfValues) {
  const std::vector<Tensor> three{tensor_of({1, 2}, {1, 2}), tensor_of({3, 4}, {1, 2}), tensor_of({5}, {1, 1})};
  EXPECT_EQ(Add().forward(call_with(three)).value().to_vector(), (std::vector<double>{9, 11}));
  EXPECT_EQ(Multiply().forward(call_with(three)).value().to_vector(), (std::vector<double>{15, 40}));
  EXPECT_EQ(Concat().forward(call_with(three)).value().to_vector(), (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(Add().forward(call_with({three[0]})).value().to_vector(), (std::vector<double>{1, 2}));
  expect_error<UsageError>([] { Concat(0); }, {"Concat", "got 0", "the batch"});
  expect_error<UsageError>([&] { Concat(-2).forward(call_with(three)); }, {"Concat", "axis -2 of [1, 2]"});
}

TEST(Combine, RoundsToTheFirstFloatingDtype) {
  const Tensor half = cast(tensor_of({1, 2}, {1, 2}), DType::bf16), single = tensor_of({3, 4}, {1, 2});
  EXPECT_EQ(Add().forward(call_with({half, single})).value().dtype(), DType::bf16);
  EXPECT_EQ(Multiply().forward(call_with({half, single})).value().dtype(), DType::bf16);
  EXPECT_EQ(Concat().forward(call_with({half, single})).value().dtype(), DType::bf16);
}

TEST(Combine, KeepsFractionsBesideWholeNumbersThatComeFirst) {
  const Tensor mask = tensor_of({1, 0}, {1, 2}, DType::u8), x = tensor_of({0.75, -2.5}, {1, 2});
  const auto values = [&](const Module& module) { return module.forward(call_with({mask, x})).value().to_vector(); };
  EXPECT_EQ(values(Multiply()), (std::vector<double>{0.75, 0}));
  EXPECT_EQ(values(Add()), (std::vector<double>{1.75, -2.5}));
  EXPECT_EQ(values(Concat()), (std::vector<double>{1, 0, 0.75, -2.5}));
}

TEST(Combine, RefusesWholeNumbersOfSeveralDtypes) {
  const Tensor small = tensor_of({1}, {1, 1}, DType::u8), large = tensor_of({300}, {1, 1}, DType::i32);
  expect_error<UsageError>([&] { Add().forward(call_with({small, large})); }, {"add", "one dtype", "u8", "i32"});
  expect_error<UsageError>([&] { Concat().forward(call_with({small, large})); }, {"concat", "u8", "i32"});
}

TEST(Activation, IsALayerOfEachFunction) {
  const double x = -0.7, s = 1 / (1 + std::exp(-x));
  const auto at_x = [&](const Module& module) { return module.forward(call_with({tensor_of({x}, {1, 1}, DType::f64)})).value().item(); };
  EXPECT_EQ(at_x(ReLU()), 0);
  EXPECT_NEAR(at_x(Sigmoid()), s, 1e-12);
  EXPECT_NEAR(at_x(SiLU()), x * s, 1e-12);
  EXPECT_NEAR(at_x(Tanh()), std::tanh(x), 1e-12);
  EXPECT_NEAR(at_x(Softplus()), std::log(1 + std::exp(x)), 1e-12);
  EXPECT_NEAR(at_x(GELU()), x * std::erfc(-x / std::sqrt(2)) / 2, 1e-12);
  EXPECT_NEAR(at_x(GELUTanh()), x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))), 1e-12);
  EXPECT_NEAR(at_x(Mish()), x * std::tanh(std::log(1 + std::exp(x))), 1e-12);
  EXPECT_NEAR(at_x(Hardswish()), x * (x + 3) / 6, 1e-12);
  EXPECT_NEAR(at_x(Hardsigmoid()), (x + 3) / 6, 1e-12);
  EXPECT_NEAR(at_x(LeakyReLU()), 0.01 * x, 1e-12);
  EXPECT_NEAR(at_x(LeakyReLU(0.2)), 0.2 * x, 1e-12);
  EXPECT_NEAR(at_x(ELU()), std::expm1(x), 1e-12);
  EXPECT_NEAR(at_x(ELU(1.5)), 1.5 * std::expm1(x), 1e-12);
  EXPECT_NEAR(at_x(Activation(Unary::Sin)), std::sin(x), 1e-12);
}

TEST(PReLU, LearnsASlopeInAllOrAChannel) {
  const auto run = [](const PReLU& module, const Tensor& weight) {
    Call call = call_with({tensor_of({-1, 2, -3, -4, 5, -6}, {2, 3})});
    call.parameters = {Var(weight)};
    return module.forward(call).value().to_vector();
  };
  EXPECT_EQ(run(PReLU(), tensor_of({0.25}, {1})), (std::vector<double>{-0.25, 2, -0.75, -1, 5, -1.5}));
  EXPECT_EQ(run(PReLU(3), tensor_of({1, 2, 3}, {3})), (std::vector<double>{-1, 2, -9, -4, 5, -18}));
  const auto parameters = PReLU(3, 0.1).parameters();
  EXPECT_EQ(parameters[0].shape, (Shape{3}));
  EXPECT_EQ(parameters[0].initializer.low, 0.1);
  EXPECT_FALSE(parameters[0].decay);
  expect_error<UsageError>([] { PReLU(0); }, {"PReLU: needs channels > 0, got 0"});
  expect_error<UsageError>([&] { run(PReLU(2), tensor_of({1, 2}, {2})); }, {"PReLU: needs x [..., 2], got [2, 3]", "the channels of x"});
}

TEST(PReLU, HasTheGradientsOfInputAndSlope) {
  Graph graph;
  const Value x = graph.input("x", {6}, DType::f64), target = graph.input("target", {2}, DType::f64);
  const Value hidden = graph.add("hidden", Sequence(Linear(6, 5), PReLU(5), Linear(5, 2), PReLU()), x);
  graph.loss(graph.add("loss", MeanSquaredError(), {hidden, target}));
  sluice::testing::expect_gradients_like_differences(
      graph, {randn({7, 6}, random_key(1, "x"), DType::f64), randn({7, 2}, random_key(1, "target"), DType::f64)});
}

TEST(Softmax, IsOverTheLastAxis) {
  const Tensor x = tensor_of({0, std::log(3), 1, 1}, {2, 2}, DType::f64);
  const auto y = Softmax().forward(call_with({x})).value().to_vector(), log_y = LogSoftmax().forward(call_with({x})).value().to_vector();
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], std::vector<double>({0.25, 0.75, 0.5, 0.5})[i], 1e-12);
    EXPECT_NEAR(log_y[i], std::log(y[i]), 1e-12);
  }
}

/// A weight before and after the modules, so that gradients go through them.
TEST(ShapeModules, PassGradientsOn) {
  Graph graph;
  const Value x = graph.input("x", {2, 6}, DType::f64), target = graph.input("target", {3, 2}, DType::f64);
  const Value a = graph.add("a", Linear(6, 6), x), b = graph.add("b", Linear(6, 3), x);
  const Value joined = graph.add("joined", Concat(), {a, graph.add("b_tanh", Tanh(), b)});
  const Value rows = graph.add("rows", Sequence().then("flat", Flatten()).then("shape", Reshape({-1, 6})).then("c", Linear(6, 2)), joined);
  const Value twice = graph.add("twice", Lambda("twice", [](const Var& y) { return 2 * y; }), rows);
  const Value sum = graph.add("sum", Add(), {twice, rows}), product = graph.add("product", Multiply(), {sum, twice, rows});
  graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("softmax", Softmax(), product), target}));
  const Tensor input = empty({3, 2, 6}, DType::f64), wanted = empty({3, 3, 2}, DType::f64);
  fill_normal(input, 0, 1, random_key(1, "x"));
  fill_normal(wanted, 0, 1, random_key(1, "target"));
  sluice::testing::expect_gradients_like_differences(graph, {input, wanted});
}

TEST(Lambda, TakesOneValueTwoOrTheCall) {
  const Tensor x = tensor_of({2, 3}, {1, 2}), y = tensor_of({5, 7}, {1, 2});
  EXPECT_EQ(Lambda("a", [](const Var& v) { return v + 1; }).forward(call_with({x})).value().to_vector(), (std::vector<double>{3, 4}));
  const Lambda product("b", [](const Var& v, const Var& w) { return v * w; });
  EXPECT_EQ(product.forward(call_with({x, y})).value().to_vector(), (std::vector<double>{10, 21}));
  const auto of_call = [](const Call& call) { return call.training ? call.inputs[0] : call.inputs[1]; };
  EXPECT_EQ(Lambda("c", of_call, {2, 2}).forward(call_with({x, y})).value().to_vector(), (std::vector<double>{2, 3}));
  expect_error<UsageError>([] { Lambda("", [](const Var& v) { return v; }); }, {"Lambda", "not empty"});
  expect_error<UsageError>([] { Lambda("d", std::function<Var(const Var&)>()); }, {"Lambda", "'d' and none"});
}

TEST(Lambda, IsNamedInMessagesAndToldApartByItsNameInTheDigest) {
  const auto graph = [](const std::string& name, bool is_within) {
    Graph result;
    const Value x = result.input("x", {4});
    const Lambda lambda(name, [](const Var& v) { return v * 2; });
    is_within ? result.add("node", Sequence().then("lambda", lambda), x) : result.add("node", lambda, x);
    return result;
  };
  EXPECT_EQ(type_of(*graph("double", false).nodes()[0].module), "sluice::layers::Lambda 'double'");
  EXPECT_EQ(type_of(*graph("double", true).nodes()[0].module), "sluice::layers::Sequence 'double'");
  for (const bool is_within : {false, true}) {
    EXPECT_EQ(model_digest(graph("double", is_within)), model_digest(graph("double", is_within)));
    EXPECT_NE(model_digest(graph("double", is_within)), model_digest(graph("twice", is_within)));
  }
}

}  // namespace
}  // namespace sluice::layers
