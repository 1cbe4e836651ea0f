#include "layers/group_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/copy.h"
#include "core/random.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"
#include "tests/tolerance.h"

namespace sluice::layers {
namespace {

constexpr int64_t kSamples = 3, kHeight = 2, kWidth = 5, kChannels = 6;
constexpr double kEpsilon = 1e-3;

Tensor images() {
  const Tensor x = empty({kSamples, kHeight, kWidth, kChannels}, DType::f64);
  fill_normal(x, 3, 2, random_key(1, "x"));
  return x;
}

double weight_of(int64_t channel) { return 0.5 + static_cast<double>(channel); }
double bias_of(int64_t channel) { return 0.25 * static_cast<double>(channel) - 1; }

/// By plain loops.
std::vector<double> naive(const std::vector<double>& x, int64_t groups) {
  const int64_t run = kChannels / groups, sample_size = kHeight * kWidth * kChannels;
  std::vector<double> y(x.size());
  for (int64_t sample = 0; sample < kSamples; ++sample)
    for (int64_t group = 0; group < groups; ++group) {
      double sum = 0, squares = 0, count = 0;
      const auto each = [&](const auto& f) {
        for (int64_t i = 0; i < sample_size; ++i)
          if (i % kChannels / run == group) f(static_cast<size_t>(sample * sample_size + i), i % kChannels);
      };
      each([&](size_t i, int64_t) { sum += x[i], ++count; });
      each([&](size_t i, int64_t) { squares += std::pow(x[i] - sum / count, 2); });
      const double deviation = std::sqrt(squares / count + kEpsilon);
      each([&](size_t i, int64_t channel) { y[i] = (x[i] - sum / count) / deviation * weight_of(channel) + bias_of(channel); });
    }
  return y;
}

Tensor normalized(const GroupNorm& norm, DType dtype) {
  std::vector<double> weight, bias;
  for (int64_t channel = 0; channel < kChannels; ++channel) weight.push_back(weight_of(channel)), bias.push_back(bias_of(channel));
  Call call;
  call.inputs = {Var(cast(images(), dtype))};
  call.parameters = {Var(tensor_of(weight, {kChannels}, dtype)), Var(tensor_of(bias, {kChannels}, dtype))};
  return norm.forward(call).value();
}

TEST(GroupNorm, IsItsFormulaInEveryDtype) {
  for (const int64_t groups : {1, 2, 3, 6})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const Tensor y = normalized(groups == kChannels ? InstanceNorm(kChannels, kEpsilon) : GroupNorm(groups, kChannels, kEpsilon), dtype);
      const auto found = y.to_vector(), expected = naive(images().to_vector(), groups);
      EXPECT_EQ(y.shape(), images().shape());
      EXPECT_EQ(y.dtype(), dtype);
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], sluice::testing::tolerance_of(dtype).value * 10) << groups << " groups, element " << i;
    }
}

TEST(GroupNorm, HasTheGradientsOfItsValue) {
  for (const int64_t groups : {1, 2, 6}) {
    Graph graph;
    const Shape sample{kHeight, kWidth, kChannels};
    const Value x = graph.input("x", sample, DType::f64), target = graph.input("target", sample, DType::f64);
    const Value before = graph.add("before", Linear(kChannels, kChannels), x);
    graph.loss(graph.add("loss", MeanSquaredError(), {graph.add("norm", GroupNorm(groups, kChannels), before), target}));
    sluice::testing::expect_gradients_like_differences(graph, {images(), images()});
  }
}

TEST(GroupNorm, NamesWhatDoesNotFit) {
  expect_error<UsageError>([] { GroupNorm(4, 6); }, {"GroupNorm", "divide", "4 groups of 6"});
  expect_error<UsageError>([] { GroupNorm(2, 6, 0); }, {"epsilon > 0"});
  expect_error<UsageError>([] { normalized(GroupNorm(2, 8), DType::f32); }, {"GroupNorm", "[batch, ..., 8]", "[3, 2, 5, 6]"});
  Call call;
  call.inputs = {Var(zeros({2, 6}, DType::i32))};
  call.parameters = {Var(ones({6})), Var(zeros({6}))};
  expect_error<UsageError>([&] { GroupNorm(2, 6).forward(call); }, {"GroupNorm", "needs floats", "got i32 [2, 6]"});
}

}  // namespace
}  // namespace sluice::layers
