#include "layers/convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "layers/cross_entropy.h"
#include "layers/graph.h"
#include "layers/losses.h"
#include "layers/pooling.h"
#include "layers/reshape.h"
#include "layers/upsample.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::layers {
namespace {

/// One channel in, two out, both with weight 1 and no change by the norm but its rounding.
Tensor reduced(const Tensor& x) {
  const Var one(full({1, 1, 1, 1}, 1)), gamma(full({2}, 1)), beta(zeros({2}));
  Call call;
  call.inputs = {Var(x)};
  call.parameters = {one, one, gamma, beta};
  call.statistics = {{zeros({2}), full({2}, 1)}};
  call.training = false;
  return FactorizedReduction(1, 2).forward(call).value();
}

std::vector<int> rounded(const Tensor& x) {
  std::vector<int> result;
  for (double value : x.to_vector()) result.push_back(static_cast<int>(std::lround(value)));
  return result;
}

TEST(FactorizedReduction, TakesEvenPlacesThenOddOnesWithZerosPastTheEdge) {
  const Tensor even = tensor_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {1, 4, 4, 1});
  EXPECT_EQ(rounded(reduced(even)), (std::vector<int>{1, 6, 3, 8, 9, 14, 11, 16}));
  const Tensor odd = tensor_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1});
  EXPECT_EQ(rounded(reduced(odd)), (std::vector<int>{1, 5, 3, 0, 7, 0, 9, 0}));
  EXPECT_EQ(rounded(reduced(tensor_of({7}, {1, 1, 1, 1}))), (std::vector<int>{7, 0}));
}

Tensor output(const Module& module, const Tensor& x, const std::vector<Tensor>& parameters) {
  Call call;
  call.inputs = {Var(x)};
  call.parameters = std::vector<Var>(parameters.begin(), parameters.end());
  return module.forward(call).value();
}

TEST(Conv2d, AddsABiasAndPadsAsMuchAsIsGiven) {
  const Window window{.size_h = 2, .size_w = 2, .padding = Padding::given, .pad_h = 1, .pad_w = 0};
  const Conv2d convolution(1, 2, window, 1, true);
  const Tensor x = tensor_of({1, 2, 3, 4}, {1, 2, 2, 1}), weight = full({2, 2, 2, 1}, 1), bias = tensor_of({10, 20}, {2});
  const Tensor y = output(convolution, x, {weight, bias});
  EXPECT_EQ(y.shape(), (Shape{1, 3, 1, 2}));
  EXPECT_EQ(rounded(y), (std::vector<int>{13, 23, 20, 30, 17, 27}));
  EXPECT_EQ(convolution.parameters()[1].name, "bias");
  EXPECT_FALSE(convolution.parameters()[1].decay);
  EXPECT_EQ(Conv2d(1, 2, window).parameters().size(), 1u);
}

TEST(Conv1d, MovesAlongASequence) {
  const Tensor x = tensor_of({1, 2, 3, 4, 5}, {1, 5, 1}), weight = tensor_of({1, 10, 100}, {1, 1, 3, 1});
  EXPECT_EQ(rounded(output(Conv1d({1, 1, 3}), x, {weight})), (std::vector<int>{210, 321, 432, 543, 54}));
  EXPECT_EQ(rounded(output(Conv1d({.in = 1, .out = 1, .size = 3, .padding = Padding::valid}), x, {weight})),
            (std::vector<int>{321, 432, 543}));
  EXPECT_EQ(rounded(output(Conv1d({.in = 1, .out = 1, .size = 3, .padding = Padding::valid, .dilation = 2}), x, {weight})),
            (std::vector<int>{531}));
  const Conv1d strided({.in = 1, .out = 1, .size = 3, .stride = 2, .padding = Padding::given, .pad = 2, .bias = true});
  EXPECT_EQ(rounded(output(strided, x, {weight, tensor_of({1000}, {1})})), (std::vector<int>{1100, 1321, 1543, 1005}));
  expect_error<UsageError>(
      [&] {
        output(strided, x.reshape({1, 5}), {weight, weight});
      },
      {"Conv1d", "[batch, tokens, channels]", "[1, 5]"});
}

TEST(AdaptiveAveragePool2d, GivesTheSizeThatIsAskedFor) {
  Call call;
  call.inputs = {Var(tensor_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1}))};
  const Tensor y = AdaptiveAveragePool2d(2, 3).forward(call).value();
  EXPECT_EQ(y.shape(), (Shape{1, 2, 3, 1}));
  EXPECT_EQ(y.to_vector(), (std::vector<double>{2.5, 3.5, 4.5, 5.5, 6.5, 7.5}));
  expect_error<UsageError>([] { AdaptiveAveragePool2d(0, 3); }, {"AdaptiveAveragePool2d: needs a size of at least 1 x 1, got 0 x 3"});
}

TEST(Upsample, InterpolatesBilinearly) {
  const Tensor x = tensor_of({0, 4}, {1, 1, 2, 1});
  EXPECT_EQ(output(Upsample(2, Upsample::Kind::bilinear), x, {}).to_vector(), (std::vector<double>{0, 1, 3, 4, 0, 1, 3, 4}));
}

TEST(Upsample, RepeatsEveryPixel) {
  const Tensor x = tensor_of({1, 2}, {1, 1, 2, 1});
  EXPECT_EQ(rounded(output(Upsample(2), x, {})), (std::vector<int>{1, 1, 2, 2, 1, 1, 2, 2}));
  expect_error<UsageError>([] { Upsample(0); }, {"Upsample", "got 0"});
  expect_error<UsageError>([&] { output(Upsample(2), x.reshape({1, 2}), {}); }, {"Upsample", "[1, 2]"});
}

TEST(Convolutions, HaveTheGradientsOfTheirValues) {
  Graph graph;
  const Value x = graph.input("x", {5, 4}, DType::f64), target = graph.input("target", {4, 12, 2}, DType::f64);
  const Value a = graph.add("a", Conv1d({.in = 4, .out = 6, .size = 3, .padding = Padding::given, .pad = 2, .groups = 2, .bias = true}), x);
  const Value image = graph.add("image", Sequence().then("cut", Conv1d({6, 8, 4, 1, Padding::valid})).then("rows", Reshape({2, 4, 4})), a);
  const Window window{.size_h = 3, .size_w = 2, .stride_h = 2, .stride_w = 2, .padding = Padding::given, .pad_h = 1, .pad_w = 1};
  const Value b = graph.add("b", Conv2d(4, 2, window, 1, true), image);
  const Value up = graph.add("up", ConvTranspose2d(2, 2, {.size_h = 2, .size_w = 3, .stride_h = 2, .stride_w = 2}, 1, true), b);
  graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("twice", Upsample(2), up), target}));
  const Tensor input = empty({3, 5, 4}, DType::f64), wanted = empty({3, 4, 12, 2}, DType::f64);
  fill_normal(input, 0, 1, random_key(1, "x"));
  fill_normal(wanted, 0, 1, random_key(1, "target"));
  sluice::testing::expect_gradients_like_differences(graph, {input, wanted});
}

TEST(CrossEntropy, AddsTheAuxiliaryLossInTrainingOnly) {
  const Tensor logits = tensor_of({1, 2, 0, 1}, {2, 2}), other = tensor_of({3, 1, 2, 2}, {2, 2});
  const Tensor labels = tensor_of({0, 1}, {2}, DType::i32);
  const auto loss = [&](double weight, const std::vector<Var>& inputs, bool training) {
    Call call;
    call.inputs = inputs;
    call.training = training;
    call.loss_scale = 0.5;
    return CrossEntropy(0, weight).forward(call).value().item();
  };
  const double first = loss(0, {logits, labels}, true), second = loss(0, {other, labels}, true);
  EXPECT_NEAR(loss(0.4, {logits, labels, other}, true), first + 0.4 * second, 1e-6);
  EXPECT_EQ(loss(0.4, {logits, labels, other}, false), first);
}

}  // namespace
}  // namespace sluice::layers
