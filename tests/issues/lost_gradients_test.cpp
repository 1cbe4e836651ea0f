// Gradients that lost something without a word: a NaN, the bits below bf16, a share among equals, elements of a split, all behind integers.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/backward.h"
#include "autograd/ops/cast.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"
#include "core/elements.h"
#include "core/ops/copy.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/plan/predict.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

std::vector<double> gradient_of(const std::function<Var(const Var&)>& loss, const Tensor& x) {
  const Var leaf = Var::input(x);
  return gradients(sum(loss(leaf)), {leaf})[0].to_vector();
}

TEST(LostGradients, TellOfANaNAsTheValueDoes) {
  const auto other = [](double x) { return Var(full({3}, x)); };
  const std::pair<const char*, std::function<Var(const Var&)>> rules[] = {
      {"abs", [](const Var& x) { return abs(x); }},
      {"relu", [](const Var& x) { return relu(x); }},
      {"leaky_relu", [](const Var& x) { return leaky_relu(x); }},
      {"hardsigmoid", [](const Var& x) { return hardsigmoid(x); }},
      {"hardswish", [](const Var& x) { return hardswish(x); }},
      {"elu", [](const Var& x) { return elu(x); }},
      {"clamp", [](const Var& x) { return clamp(x, -1, 1); }},
      {"prelu", [&](const Var& x) { return prelu(x, other(0.25)); }},
      {"maximum", [&](const Var& x) { return maximum(x, other(0)); }},
      {"minimum", [&](const Var& x) { return minimum(x, other(0)); }},
      {"maximum of the other", [&](const Var& x) { return maximum(other(0), x); }}};
  for (const auto& [name, rule] : rules) {
    const auto slopes = gradient_of(rule, tensor({0.5, std::nan(""), -0.5}, DType::f32));
    EXPECT_TRUE(std::isnan(slopes[1])) << name << ": " << slopes[1];
    EXPECT_TRUE(std::isfinite(slopes[0]) && std::isfinite(slopes[2])) << name;
  }
  for (const bool of_largest : {true, false})
    for (const double slope :
         gradient_of([=](const Var& x) { return of_largest ? max(x) : min(x); }, tensor({1.0, std::nan(""), 2.0}, DType::f32)))
      EXPECT_TRUE(std::isnan(slope));
}

TEST(LostGradients, OfZerosAndInfinitiesAreAsBefore) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({-infinity, -1.0, -0.0, 0.0, 1.0, infinity}, DType::f32);
  const auto of = [&](Var (*rule)(const Var&)) { return gradient_of(rule, x); };
  EXPECT_EQ(of([](const Var& v) { return abs(v); }), (std::vector<double>{-1, -1, 0, 0, 1, 1}));
  EXPECT_EQ(of([](const Var& v) { return relu(v); }), (std::vector<double>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(of([](const Var& v) { return leaky_relu(v, 0.5); }), (std::vector<double>{0.5, 0.5, 0.5, 0.5, 1, 1}));
  EXPECT_EQ(of([](const Var& v) { return clamp(v, -1, 1); }), (std::vector<double>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(of([](const Var& v) { return mul(hardsigmoid(v), 6); }), (std::vector<double>{0, 1, 1, 1, 1, 0}));
}

/// Its gradient was 0 where the loss is NaN, so that the step counted.
TEST(LostGradients, EndATrainingWhoseLossIsNaN) {
  layers::Graph graph;
  const auto x = graph.input("x", {8}), target = graph.input("target", {4});
  graph.loss(graph.add("loss", layers::MeanAbsoluteError(), {graph.add("linear", layers::Linear(8, 4), x), target}));
  parallel::Trainer trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 2, .micro_batches = 1}), SGD({.lr = 0.1}));
  const Batch batch = batch_of({{"x", randn({2, 8}, 1)}, {"target", full({2, 4}, std::nan(""))}});
  expect_error<parallel::DivergenceError>([&] { trainer.step(batch); }, {"input 'target'", "not finite"});
}

TEST(LostGradients, OfViewsOfParametersAreNotRounded) {
  const std::pair<const char*, std::function<Var(const Var&)>> views[] = {
      {"slice", [](const Var& p) { return slice(p, 0, 0, 4); }},
      {"slice of a reshaped",
       [](const Var& p) {
         return slice(reshape(p, {8, 4}), 0, 0, 4);
       }},
      {"transposed twice", [](const Var& p) { return slice(transpose(transpose(p, 0, 1), 1, 0), 0, 0, 4); }},
      {"permuted",
       [](const Var& p) {
         return slice(permute(permute(p, {1, 0}), {1, 0}), 0, 0, 4);
       }},
      {"of parts",
       [](const Var& p) {
         return concat({slice(p, 0, 0, 2), slice(p, 0, 2, 4)}, 0);
       }},
      {"selected", [](const Var& p) {
         return concat({reshape(select(p, 0, 0), {1, 4}), slice(p, 0, 1, 4)}, 0);
       }}};
  const Tensor x = cast(randn({64, 4, 4}, 2), DType::bf16), dy = cast(randn({64, 4, 4}, 3), DType::bf16);
  const auto exact = sum(cast(dy, DType::f32), {0}).to_vector();
  for (const auto& [name, view] : views) {
    const Var p = Var::parameter(cast(randn({8, 4}, 1), DType::bf16));
    const Tensor dp = gradients(add(Var(x), view(p)), dy, {p})[0];
    EXPECT_EQ(dp.dtype(), DType::f32) << name;
    const auto found = dp.slice(0, 0, 4).contiguous().to_vector();
    for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(found[i], exact[i], 1e-5 * std::abs(exact[i]) + 1e-6) << name << " at " << i;
  }
}

TEST(LostGradients, AreSharedByAllEqualMaxima) {
  const Tensor x = tensor({1, 1, 1, 0, 1, 0, 0, 0}, DType::f32).reshape({2, 2, 2});
  const auto share = [&](const std::vector<int>& axes) { return gradient_of([&](const Var& v) { return max(v, axes); }, x); };
  EXPECT_EQ(share({}), (std::vector<double>{0.25, 0.25, 0.25, 0, 0.25, 0, 0, 0}));
  const double third = static_cast<float>(1.0 / 3);
  EXPECT_EQ(share({1, 2}), (std::vector<double>{third, third, third, 0, 1, 0, 0, 0}));
  EXPECT_EQ(share({0, 2}), (std::vector<double>{third, third, 1, 0, third, 0, 0, 0}));
  EXPECT_EQ(max(Var(x), {0, -1}, true).shape(), (Shape{1, 2, 1}));
  expect_error<UsageError>([&] { max(Var::input(x), {0, 0}); }, {"max", "distinct axes"});
  expect_error<UsageError>([&] { prod(Var::input(x), {1, -2}); }, {"prod", "distinct axes"});
}

TEST(LostGradients, OfASplitHaveAllElements) {
  const Tensor x = randn({4}, 1);
  for (const Var& v : {Var(x), Var::input(x)}) expect_error<UsageError>([&] { split(v, {1, 2}, 0); }, {"sizes that add up to 4", "got 3"});
}

/// The gradient of integers was one of integers: every factor was cut to a whole number.
TEST(LostGradients, EndAtIntegers) {
  const Var x = Var::input(tensor({1.5, 2.5, 3.5, 4.5}, DType::f32));
  EXPECT_EQ(cast(x, DType::i32).node(), nullptr);
  const Var y = add(mul(cast(cast(x, DType::i32), DType::f32), 2.7), mul(x, x));
  EXPECT_EQ(gradients(sum(y), {x})[0].to_vector(), (std::vector<double>{3, 5, 7, 9}));
}

}  // namespace
}  // namespace sluice
