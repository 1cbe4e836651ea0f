#include "layers/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/ops/copy.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/model_digest.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

constexpr int64_t kCount = 200'000;

std::vector<double> drawn(const Initializer& start, uint64_t key = 5) {
  const Tensor x = empty({kCount}, DType::f64);
  initialize(x, start, key);
  return x.to_vector();
}

double deviation_of(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value, squares += value * value;
  const auto count = static_cast<double>(values.size());
  EXPECT_LT(std::abs(sum / count), 0.01) << "a mean of 0";
  return std::sqrt(squares / count);
}

TEST(Initializer, DrawsAsItsRuleSays) {
  const auto uniform = drawn(Initializer::uniform(-1, 3));
  EXPECT_LT(std::ranges::max(uniform), 3);
  EXPECT_GT(std::ranges::max(uniform), 2.999);
  EXPECT_GE(std::ranges::min(uniform), -1);
  EXPECT_LT(std::ranges::min(uniform), -0.999);
  EXPECT_EQ(drawn(Initializer::constant(0.7)), std::vector<double>(kCount, 0.7));
  EXPECT_NEAR(deviation_of(drawn(Initializer::xavier_normal(30, 20))), 0.2, 0.002);
  EXPECT_NEAR(deviation_of(drawn(Initializer::xavier_uniform(30, 20))), 0.2, 0.002);
  EXPECT_NEAR(deviation_of(drawn(Initializer::kaiming_normal(50))), 0.2, 0.002);
  EXPECT_NEAR(deviation_of(drawn(Initializer::kaiming_uniform(25, 1))), 0.2, 0.002);
}

TEST(Initializer, CutsNormalNumbersWithoutHeapingThemAtTheEnds) {
  const auto values = drawn(Initializer::truncated_normal(0.5));
  EXPECT_NEAR(deviation_of(values), 0.5 * 0.8796, 0.003);  // the deviation of a normal distribution cut at two of its own
  EXPECT_LE(std::ranges::max(values), 1);
  EXPECT_GE(std::ranges::min(values), -1);
  const auto at_the_end = std::ranges::count_if(values, [](double value) { return value > 0.99; });
  EXPECT_LT(static_cast<double>(at_the_end), 0.003 * kCount);  // 0.00119 of them by the density there
  EXPECT_EQ(values, drawn(Initializer::truncated_normal(0.5)));
  EXPECT_NE(values, drawn(Initializer::truncated_normal(0.5), 6));
}

TEST(Initializer, TakesValues) {
  const Tensor x = empty({2, 2});
  initialize(x, Initializer::values(tensor_of({1, 2, 3, 4}, {2, 2}, DType::f64).transpose(0, 1)), 0);
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1, 3, 2, 4}));
  const Tensor given = full({1}, 5), started = empty({1});
  const Initializer start = Initializer::values(given);
  fill(given, 6);
  initialize(started, start, 0);
  EXPECT_EQ(started.item(), 5);
}

Graph two_layers() {
  Graph graph;
  const ModulePtr shared = std::make_shared<Linear>(3, 3);
  const Value first = graph.add("first", shared, graph.input("x", {3}));
  graph.add("second", shared, first);
  return graph;
}

TEST(Graph, TakesOneModuleForSeveralNodesWithParametersOfTheirOwn) {
  EXPECT_EQ(two_layers().parameter_count(), 2 * (9 + 3));
  Graph graph;
  const Value x = graph.input("x", {3});
  expect_error<UsageError>([&] { graph.add("none", ModulePtr(), x); }, {"node 'none'", "null pointer"});
}

TEST(Graph, StartsAParameterAsItIsTold) {
  Graph graph = two_layers();
  const std::string before = model_digest(graph);
  graph.initialize("second.weight", Initializer::uniform(0, 1));
  EXPECT_EQ(graph.parameters()[2].spec.initializer.kind, Initializer::Kind::uniform);
  EXPECT_NE(model_digest(graph), before);
  graph.initialize("second.bias", Initializer::values(full({3}, 2)));
  const std::string with_twos = model_digest(graph);
  graph.initialize("second.bias", Initializer::values(full({3}, 3)));
  EXPECT_NE(model_digest(graph), with_twos);
}

TEST(Graph, RefusesStartsThatDoNotFit) {
  Graph graph = two_layers();
  const auto refused = [&](const Initializer& start, std::initializer_list<std::string> words) {
    expect_error<UsageError>([&] { graph.initialize("first.bias", start); }, words);
  };
  expect_error<UsageError>([&] { graph.initialize("first.wieght", Initializer::ones()); }, {"first.wieght", "first.weight"});
  refused(Initializer::values(full({4}, 1)), {"'first.bias'", "[3]", "[4]"});
  refused(Initializer::values({}), {"'first.bias'", "undefined"});
  refused(Initializer::uniform(1, 0), {"'first.bias'", "[1, 0)"});
  refused(Initializer::normal(-1), {"'first.bias'", "deviation >= 0", "-1"});
  refused(Initializer::truncated_normal(1, 0.1), {"'first.bias'", "at least 0.5", "0.1"});
  expect_error<UsageError>([] { Initializer::kaiming_normal(0); }, {"kaiming_normal", "connections > 0"});
  expect_error<UsageError>([] { Initializer::xavier_uniform(3, 0); }, {"xavier_uniform", "3 and 0"});
}

}  // namespace
}  // namespace sluice::layers
