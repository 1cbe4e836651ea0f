#include "layers/mixture_of_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/copy.h"
#include "core/ops/select.h"
#include "core/ops/softmax.h"
#include "core/random.h"
#include "layers/linear.h"
#include "layers/loss_sum.h"
#include "layers/losses.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"
#include "tests/tolerance.h"

namespace sluice::layers {
namespace {

using sluice::testing::tolerance_of;

constexpr int64_t kBatch = 3, kTokens = 7, kWidth = 4, kInner = 5, kExperts = 3;

Tensor normal_tensor(const Shape& shape, const std::string& name) {
  const Tensor x = empty(shape, DType::f64);
  fill_normal(x, 0, 1, random_key(5, name));
  return x;
}

struct Example {
  Tensor x = normal_tensor({kBatch, kTokens, kWidth}, "x");
  Tensor probabilities = softmax(normal_tensor({kBatch, kTokens, kExperts}, "p"));
  Tensor in = normal_tensor({kExperts, kWidth, kInner}, "in"), out = normal_tensor({kExperts, kInner, kWidth}, "out");
};

Experts::Options options_of(int64_t chosen, double factor) {
  return {.width = kWidth,
          .inner = kInner,
          .experts = kExperts,
          .chosen = chosen,
          .capacity_factor = factor,
          .activation = Activation::Kind::relu};
}

/// Adds weight times the expert's output for one token to y.
void add_expert(const Example& of, int64_t expert, const double* x, double weight, double* y) {
  const auto in = of.in.select(0, expert).to_vector(), out = of.out.select(0, expert).to_vector();
  for (int64_t j = 0; j < kInner; ++j) {
    double hidden = 0;
    for (int64_t i = 0; i < kWidth; ++i) hidden += x[i] * in[static_cast<size_t>(i * kInner + j)];
    for (int64_t i = 0; i < kWidth; ++i) y[i] += weight * std::max(hidden, 0.0) * out[static_cast<size_t>(j * kWidth + i)];
  }
}

/// The experts of a token, likeliest first.
std::vector<int64_t> ranked(const double* probabilities) {
  std::vector<int64_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return probabilities[a] > probabilities[b]; });
  return order;
}

/// By plain loops: choice by choice, token by token, each expert until it is full.
std::vector<double> naive(const Example& of, int64_t chosen, int64_t capacity) {
  const auto x = of.x.to_vector(), p = of.probabilities.to_vector();
  std::vector<double> y(x.size());
  for (int64_t sample = 0; sample < kBatch; ++sample) {
    std::vector<int64_t> taken(kExperts);
    for (int64_t choice = 0; choice < chosen; ++choice)
      for (int64_t token = sample * kTokens; token < (sample + 1) * kTokens; ++token) {
        const double* of_token = p.data() + token * kExperts;
        const auto order = ranked(of_token);
        double total = 0;
        for (int64_t i = 0; i < chosen; ++i) total += of_token[order[static_cast<size_t>(i)]];
        const int64_t expert = order[static_cast<size_t>(choice)];
        if (taken[static_cast<size_t>(expert)]++ >= capacity) continue;
        add_expert(of, expert, x.data() + token * kWidth, chosen == 1 ? of_token[expert] : of_token[expert] / total,
                   y.data() + token * kWidth);
      }
  }
  return y;
}

Tensor run(const Example& of, const Experts& experts, DType dtype = DType::f64) {
  Call call;
  call.inputs = {Var(cast(of.x, dtype)), Var(cast(of.probabilities, compute_dtype(dtype)))};
  call.parameters = {Var(cast(of.in, dtype)), Var(cast(of.out, dtype))};
  return experts.forward(call).value();
}

TEST(Experts, AreTheirFormulaWithRoomAndWithout) {
  const Example of;
  for (const int64_t chosen : {1, 2, 3})
    for (const double factor : {0.2, 0.7, 1.0, 1.25, 3.0})
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        const Experts experts(options_of(chosen, factor));
        const Tensor y = run(of, experts, dtype);
        const auto found = y.to_vector(), expected = naive(of, chosen, experts.capacity(kTokens));
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.shape(), of.x.shape());
        const double largest = std::abs(*std::ranges::max_element(expected, {}, [](double v) { return std::abs(v); }));
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(found[i], expected[i], tolerance_of(dtype).value * std::max(1.0, largest))
              << chosen << " chosen, factor " << factor << ", element " << i;
      }
}

TEST(Experts, HaveRoomForTheirShareRoundedUp) {
  EXPECT_EQ(Experts(options_of(1, 1)).capacity(7), 3);
  EXPECT_EQ(Experts(options_of(2, 1.25)).capacity(6), 5);
  EXPECT_EQ(Experts(options_of(2, 1.1)).capacity(30), 22);
  EXPECT_EQ(Experts(options_of(2, 9)).capacity(7), 7);  // no token comes twice
  EXPECT_EQ(Experts(options_of(1, 0.01)).capacity(7), 1);
  EXPECT_EQ(Experts(options_of(1, 1e-12)).capacity(7), 1);
}

TEST(Experts, DropTheTokensThatComeLast) {
  Example of;
  of.probabilities = tensor_of(std::vector<double>(kBatch * kTokens * kExperts, 0.0), {kBatch, kTokens, kExperts}, DType::f64);
  copy(full({kBatch, kTokens, 1}, 1, DType::f64), of.probabilities.slice(2, 1, 2));  // all choose expert 1, which has room for 3
  const auto y = run(of, Experts(options_of(1, 1))).to_vector();
  for (int64_t token = 0; token < kBatch * kTokens; ++token) {
    const auto first = y.begin() + token * kWidth;
    EXPECT_EQ(std::all_of(first, first + kWidth, [](double value) { return value == 0; }), token % kTokens >= 3) << "token " << token;
  }
}

TEST(Experts, GiveASampleTheSameWhateverOthersAreBesideIt) {
  const Example of;
  const Experts experts(options_of(2, 0.8));
  const Tensor all = run(of, experts);
  for (int64_t sample = 0; sample < kBatch; ++sample) {
    Example one = of;
    one.x = of.x.slice(0, sample, sample + 1), one.probabilities = of.probabilities.slice(0, sample, sample + 1);
    const auto alone = run(one, experts).to_vector(), beside = all.slice(0, sample, sample + 1).to_vector();
    for (size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(alone[i], beside[i], 1e-12);
  }
}

/// Embeds, mixes, and sums the error of the result and the balance loss.
Graph graph_of(int64_t chosen, double factor) {
  Graph graph;
  const Shape sample{kTokens, kWidth};
  const Value x = graph.input("x", sample, DType::f64), target = graph.input("target", sample, DType::f64);
  const Value before = graph.add("before", Linear(kWidth, kWidth), x);
  const auto mixture = add_mixture_of_experts(graph, "mixture", options_of(chosen, factor), before);
  graph.loss(graph.add("loss", LossSum().with("error", MeanSquaredError(), 1, {0, 1}).with("balance", BalanceLoss(chosen), 0.5, {2}),
                       {mixture.output, target, mixture.probabilities}));
  return graph;
}

TEST(MixtureOfExperts, HasTheGradientsOfItsValue) {
  for (const auto& [chosen, factor] : {std::pair<int64_t, double>{1, 1.0}, {2, 0.6}, {2, 1.5}, {3, 1.0}})
    sluice::testing::expect_gradients_like_differences(
        graph_of(chosen, factor), {normal_tensor({kBatch, kTokens, kWidth}, "x"), normal_tensor({kBatch, kTokens, kWidth}, "t")});
}

TEST(Router, MakesProbabilitiesInSinglePrecisionOfHalfOnes) {
  const Tensor x = normal_tensor({kBatch, kTokens, kWidth}, "x"), weight = normal_tensor({kExperts, kWidth}, "w");
  Call call;
  call.inputs = {Var(cast(x, DType::bf16))};
  call.parameters = {Var(cast(weight, DType::bf16))};
  const Tensor y = Router(kWidth, kExperts).forward(call).value();
  EXPECT_EQ(y.dtype(), DType::f32);
  call.inputs = {Var(cast(cast(x, DType::bf16), DType::f64))};
  call.parameters = {Var(cast(cast(weight, DType::bf16), DType::f64))};
  const auto found = y.to_vector(), expected = Router(kWidth, kExperts).forward(call).value().to_vector();
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-6);
}

double balance(const Tensor& probabilities, int64_t chosen) {
  Call call;
  call.inputs = {Var(probabilities)};
  call.loss_scale = 1.0 / static_cast<double>(probabilities.dim(0));
  return BalanceLoss(chosen).forward(call).value().item();
}

TEST(BalanceLoss, IsItsFormula) {
  const Example of;
  const auto p = of.probabilities.to_vector();
  for (const int64_t chosen : {1, 2}) {
    double expected = 0;
    for (int64_t sample = 0; sample < kBatch; ++sample)
      for (int64_t expert = 0; expert < kExperts; ++expert) {
        double used = 0, mean = 0;
        for (int64_t token = sample * kTokens; token < (sample + 1) * kTokens; ++token) {
          const auto order = ranked(p.data() + token * kExperts);
          used += static_cast<double>(std::count(order.begin(), order.begin() + chosen, expert)) / static_cast<double>(kTokens * chosen);
          mean += p[static_cast<size_t>(token * kExperts + expert)] / kTokens;
        }
        expected += kExperts * used * mean / kBatch;
      }
    EXPECT_NEAR(balance(of.probabilities, chosen), expected, 1e-12) << chosen;
  }
}

TEST(BalanceLoss, IsOneOfEvenUseAndTheNumberOfExpertsOfOneAlone) {
  EXPECT_NEAR(balance(eye(kExperts, DType::f64).reshape({1, kExperts, kExperts}), 1), 1, 1e-12);
  EXPECT_NEAR(balance(tensor_of({0, 1, 0, 0, 1, 0}, {1, 2, 3}, DType::f64), 1), 3, 1e-12);
}

TEST(MixtureOfExperts, NamesWhatDoesNotFit) {
  expect_error<UsageError>([] { Experts(options_of(4, 1)); }, {"Experts", "from 1 to all", "4 of 3"});
  expect_error<UsageError>([] { Experts(options_of(0, 1)); }, {"Experts", "0 of 3"});
  expect_error<UsageError>([] { Experts(options_of(1, 0)); }, {"capacity factor > 0", "got 0"});
  expect_error<UsageError>([] { Experts({.width = 2, .inner = 2, .experts = 2, .output_deviation = -1}); }, {"deviations >= 0", "-1"});
  expect_error<UsageError>([] { Router(0, 2); }, {"Router", "width", "0 and 2"});
  expect_error<UsageError>([] { BalanceLoss(0); }, {"BalanceLoss", "at least one", "got 0"});
  expect_error<UsageError>([] { balance(Example().probabilities, 4); }, {"BalanceLoss", "4 of 3"});
  Example of;
  of.probabilities = of.probabilities.slice(1, 0, 6);
  expect_error<UsageError>([&] { run(of, Experts(options_of(1, 1))); }, {"Experts", "[batch, tokens, 3]", "[3, 7, 4] and [3, 6, 3]"});
  Graph graph;
  const Value x = graph.input("x", {kTokens, kWidth});
  expect_error<UsageError>([&] { add_mixture_of_experts(graph, "mixture", options_of(9, 1), x); }, {"9 of 3"});
  EXPECT_TRUE(graph.nodes().empty());
}

}  // namespace
}  // namespace sluice::layers
