#include "layers/mixture_of_experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/copy.h"
#include "core/random.h"
#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "layers/loss_sum.h"
#include "layers/losses.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"
#include "tests/tolerance.h"

namespace sluice::layers {
namespace {

constexpr int64_t kSamples = 3, kTokens = 7, kWidth = 4, kInner = 5, kExperts = 3;

Experts::Options options_of(int64_t chosen, double factor) {
  return {.width = kWidth,
          .inner = kInner,
          .experts = kExperts,
          .chosen = chosen,
          .capacity_factor = factor,
          .activation = Activation::Kind::relu};
}

struct Mixture {
  Tensor x = randn({kSamples, kTokens, kWidth}, 1, DType::f64), logits = randn({kSamples, kTokens, kExperts}, 2, DType::f64);
  Tensor in = randn({kExperts, kWidth, kInner}, 3, DType::f64), out = randn({kExperts, kInner, kWidth}, 4, DType::f64);

  /// softmax(logits)
  std::vector<double> probabilities() const {
    std::vector<double> p = logits.to_vector();
    for (size_t row = 0; row < p.size(); row += kExperts) {
      double sum = 0;
      for (int64_t e = 0; e < kExperts; ++e) sum += p[row + e] = std::exp(p[row + e]);
      for (int64_t e = 0; e < kExperts; ++e) p[row + e] /= sum;
    }
    return p;
  }

  Tensor by_the_layer(const Experts::Options& options, DType dtype) const {
    Call call;
    const Tensor p = tensor_of(probabilities(), logits.shape(), dtype);
    call.inputs = {Var(cast(x, dtype)), Var(p)};
    call.parameters = {Var(cast(in, dtype)), Var(cast(out, dtype))};
    return Experts(options).forward(call).value();
  }

  /// activation(x in[e]) out[e] of one token.
  std::vector<double> expert(int64_t e, const double* token) const {
    const auto first = in.to_vector(), second = out.to_vector();
    std::vector<double> y(kWidth, 0);
    for (int64_t j = 0; j < kInner; ++j) {
      double h = 0;
      for (int64_t i = 0; i < kWidth; ++i) h += token[i] * first[(e * kWidth + i) * kInner + j];
      for (int64_t i = 0; i < kWidth; ++i) y[i] += std::max(h, 0.0) * second[(e * kInner + j) * kWidth + i];
    }
    return y;
  }

  /// By plain loops. `dropped` counts the choices that found no room.
  std::vector<double> by_loops(const Experts::Options& options, int64_t capacity, int& dropped) const {
    const auto values = x.to_vector(), p = probabilities();
    std::vector<double> y(values.size(), 0);
    for (int64_t sample = 0; sample < kSamples; ++sample) {
      std::vector<int64_t> taken(kExperts, 0);
      for (int64_t choice = 0; choice < options.chosen; ++choice)
        for (int64_t t = 0; t < kTokens; ++t) {
          const int64_t token = sample * kTokens + t;
          const double* row = p.data() + token * kExperts;
          std::vector<int64_t> order(kExperts);
          std::iota(order.begin(), order.end(), 0);
          std::ranges::sort(order, [&](int64_t a, int64_t b) { return row[a] > row[b]; });
          const int64_t e = order[choice];
          if (taken[e]++ >= capacity) {
            ++dropped;
            continue;
          }
          double all = 0;
          for (int64_t k = 0; k < options.chosen; ++k) all += row[order[k]];
          const double weight = options.chosen == 1 ? row[e] : row[e] / all;
          const auto made = expert(e, values.data() + token * kWidth);
          for (int64_t i = 0; i < kWidth; ++i) y[token * kWidth + i] += weight * made[i];
        }
    }
    return y;
  }
};

TEST(Experts, AreWhatPlainLoopsGiveWithAndWithoutRoomForAll) {
  const Mixture mixture;
  int dropped_somewhere = 0;
  for (const int64_t chosen : {1, 2, 3})
    for (const double factor : {0.5, 1.0, 1.25, 3.0})
      for (const DType dtype : {DType::f64, DType::f32}) {
        const auto options = options_of(chosen, factor);
        int dropped = 0;
        const auto expected = mixture.by_loops(options, Experts(options).capacity(kTokens), dropped);
        const auto found = mixture.by_the_layer(options, dtype).to_vector();
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(found[i], expected[i], 20 * sluice::testing::tolerance_of(dtype).value) << chosen << " chosen, factor " << factor;
        EXPECT_TRUE(dropped == 0 || factor < 3);
        dropped_somewhere += dropped;
      }
  EXPECT_GT(dropped_somewhere, 0);
}

TEST(Experts, TakeTheCeilingOfTheirShareAndNeverMoreThanAllTokens) {
  EXPECT_EQ(Experts(options_of(1, 1)).capacity(7), 3);
  EXPECT_EQ(Experts(options_of(2, 1.25)).capacity(12), 10);
  EXPECT_EQ(Experts(options_of(2, 1.5)).capacity(3), 3);
  EXPECT_EQ(Experts(options_of(3, 9)).capacity(5), 5);
}

/// Tokens of the other samples change nothing.
TEST(Experts, OfASampleDependOnItAlone) {
  const Mixture mixture;
  Mixture other = mixture;
  other.logits = mixture.logits.clone();
  fill_normal(other.logits.slice(0, 0, 2), 0, 3, 9);
  const auto options = options_of(2, 0.5);
  const auto row = [](const Tensor& y) { return y.select(0, 2).contiguous().to_vector(); };
  EXPECT_EQ(row(mixture.by_the_layer(options, DType::f64)), row(other.by_the_layer(options, DType::f64)));
}

Graph graph_of(int64_t chosen, double factor) {
  Graph graph;
  const Value x = graph.input("x", {kTokens, kWidth}, DType::f64), target = graph.input("target", {kTokens, kWidth}, DType::f64);
  const auto mixture = add_mixture_of_experts(graph, "mixture", options_of(chosen, factor), graph.add("before", Linear(kWidth, kWidth), x));
  graph.loss(graph.add("loss", LossSum().with("y", MeanSquaredError(), 1, {0, 1}).with("balance", BalanceLoss(chosen), 0.5, {2}),
                       {mixture.output, target, mixture.probabilities}));
  return graph;
}

TEST(Experts, HaveTheGradientsOfTheirValueAndOfTheirBalance) {
  for (const int64_t chosen : {1, 2})
    for (const double factor : {0.5, 3.0})
      sluice::testing::expect_gradients_like_differences(
          graph_of(chosen, factor), {randn({kSamples, kTokens, kWidth}, 5, DType::f64), randn({kSamples, kTokens, kWidth}, 6, DType::f64)});
}

TEST(BalanceLoss, IsOneWhereExpertsAreUsedEvenlyAndTheirNumberWhereOneIs) {
  const auto loss_of = [](const std::vector<double>& probabilities) {
    Call call;
    call.inputs = {Var(tensor_of(probabilities, {1, 3, 3}, DType::f64))};
    return BalanceLoss(1).forward(call).value().item();
  };
  EXPECT_NEAR(loss_of({1, 0, 0, 0, 1, 0, 0, 0, 1}), 1, 1e-12);
  EXPECT_NEAR(loss_of({1, 0, 0, 1, 0, 0, 1, 0, 0}), 3, 1e-12);
}

TEST(Experts, ErrorsNameWhatDoesNotFit) {
  expect_error<UsageError>([] { Experts(options_of(0, 1)); }, {"Experts", "got 0 of 3"});
  expect_error<UsageError>([] { Experts(options_of(4, 1)); }, {"Experts", "got 4 of 3"});
  expect_error<UsageError>([] { Experts(options_of(1, 0)); }, {"capacity factor > 0", "got 0"});
  expect_error<UsageError>([] { Router(0, 2); }, {"Router", "got 0 and 2"});
  expect_error<UsageError>([] { BalanceLoss(0); }, {"BalanceLoss", "got 0"});
  Graph graph;
  const Value x = graph.input("x", {kTokens, kWidth + 1});
  expect_error<UsageError>([&] { add_mixture_of_experts(graph, "m", options_of(1, 1), x); }, {"m.router", "4", "5"});
}

}  // namespace
}  // namespace sluice::layers
