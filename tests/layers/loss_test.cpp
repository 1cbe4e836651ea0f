#include "layers/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops/reduction.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "layers/activation.h"
#include "layers/cross_entropy.h"
#include "layers/graph.h"
#include "layers/linear.h"
#include "layers/loss_sum.h"
#include "layers/losses.h"
#include "tests/expect_error.h"
#include "tests/layers/graph_gradient.h"

namespace sluice::layers {
namespace {

constexpr int64_t kSamples = 5, kRows = 2, kWidth = 3;
using Values = std::vector<double>;
/// Of one row: what each of its elements loses, of the formula's inputs.
using RowFormula = std::function<Values(const std::vector<Values>& rows)>;

struct LossCase {
  std::string name;
  ModulePtr module;
  std::function<Value(Graph&, const std::vector<Value>&)> add_to;
  RowFormula formula;
  bool has_distributions = false;  ///< targets are probabilities
  size_t inputs = 2;
};

RowFormula each(const std::function<double(double, double)>& loss) {
  return [loss](const std::vector<Values>& rows) {
    Values result;
    for (size_t i = 0; i < rows[0].size(); ++i) result.push_back(loss(rows[0][i], rows[1][i]));
    return result;
  };
}

double huber(double x, double t, double delta) {
  const double d = std::abs(x - t);
  return d <= delta ? d * d / 2 : delta * (d - delta / 2);
}

double binary_cross_entropy(double x, double t, double positive_weight) {
  const double s = 1 / (1 + std::exp(-x));
  return -positive_weight * t * std::log(s) - (1 - t) * std::log(1 - s);
}

Values kl_divergence(const std::vector<Values>& rows) {
  double sum = 0, result = 0;
  for (double x : rows[0]) sum += std::exp(x);
  for (size_t c = 0; c < rows[0].size(); ++c)
    if (rows[1][c] > 0) result += rows[1][c] * (std::log(rows[1][c]) - (rows[0][c] - std::log(sum)));
  return {result};
}

Values triplet(const std::vector<Values>& rows) {
  const auto distance = [&](const Values& other) {
    double sum = 0;
    for (size_t i = 0; i < other.size(); ++i) sum += std::pow(rows[0][i] - other[i] + 1e-6, 2);
    return std::sqrt(sum);
  };
  return {std::max(0.0, distance(rows[1]) - distance(rows[2]) + 0.7)};
}

template <class M>
LossCase loss_case(const std::string& name, const M& module, RowFormula formula, bool has_distributions = false, size_t inputs = 2) {
  return {name,
          std::make_shared<const M>(module),
          [module](Graph& graph, const std::vector<Value>& values) { return graph.add("loss", module, values); },
          std::move(formula),
          has_distributions,
          inputs};
}

std::vector<LossCase> cases() {
  return {
      loss_case("MeanSquaredError", MeanSquaredError(), each([](double x, double t) { return (x - t) * (x - t); })),
      loss_case("MeanAbsoluteError", MeanAbsoluteError(), each([](double x, double t) { return std::abs(x - t); })),
      loss_case("Huber", Huber(0.8), each([](double x, double t) { return huber(x, t, 0.8); })),
      loss_case("BinaryCrossEntropy", BinaryCrossEntropy(1.5), each([](double x, double t) { return binary_cross_entropy(x, t, 1.5); }),
                true),
      loss_case("KLDivergence", KLDivergence(), kl_divergence, true),
      loss_case("TripletMargin", TripletMargin(0.7), triplet, false, 3),
  };
}

Tensor drawn(const Shape& shape, const std::string& name) {
  const Tensor x = empty(shape, DType::f64);
  fill_normal(x, 0, 1, random_key(3, name));
  return x;
}

/// Rows of probabilities, some of which are 0.
Tensor distributions(int64_t samples) {
  Values all;
  for (int64_t row = 0; row < samples * kRows; ++row) all.insert(all.end(), {0.25, row % 2 ? 0.75 : 0.0, row % 2 ? 0.0 : 0.75});
  return tensor_of(all, {samples, kRows, kWidth}, DType::f64);
}

std::vector<Tensor> inputs_of(const LossCase& of, int64_t samples = kSamples) {
  std::vector<Tensor> inputs{drawn({samples, kRows, kWidth}, "x")};
  for (size_t i = 1; i < of.inputs; ++i)
    inputs.push_back(of.has_distributions ? distributions(samples) : drawn({samples, kRows, kWidth}, join("t", i)));
  return inputs;
}

/// The weighted mean by plain loops: a weight of its own for each of [samples], or each of [samples, kRows].
double mean_loss(const LossCase& of, const std::vector<Tensor>& inputs, const Values& weights) {
  const int64_t rows = inputs[0].dim(0) * kRows, rows_of_weight = rows / static_cast<int64_t>(weights.size());
  double sum = 0, total = 0;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<Values> rows_of_inputs;
    for (const Tensor& x : inputs) rows_of_inputs.push_back(x.reshape({rows, kWidth}).select(0, row).to_vector());
    const Values losses = of.formula(rows_of_inputs);
    double mean = 0;
    for (double loss : losses) mean += loss / static_cast<double>(losses.size());
    sum += weights[static_cast<size_t>(row / rows_of_weight)] * mean;
    total += weights[static_cast<size_t>(row / rows_of_weight)];
  }
  return sum / total;
}

double run(const Module& loss, std::vector<Tensor> inputs, double loss_scale) {
  Call call;
  call.inputs = std::vector<Var>(inputs.begin(), inputs.end());
  call.loss_scale = loss_scale;
  return loss.forward(call).value().item();
}

/// The sum over micro-batches of the first two samples and of the others.
double in_two_parts(const Module& loss, const std::vector<Tensor>& inputs) {
  const double scale = 1 / loss.loss_weight(inputs, kSamples);
  double sum = 0;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 2}, {2, kSamples}}) {
    std::vector<Tensor> part;
    for (const Tensor& x : inputs) part.push_back(x.slice(0, begin, end));
    sum += run(loss, part, scale);
  }
  return sum;
}

TEST(Losses, AreTheWeightedMeanOfTheirFormulasWhateverTheMicroBatches) {
  const Values by_sample{1, 0, 2.5, 0.5, 1}, by_row{1, 0, 2, 3, 0, 0, 0.5, 1, 1, 4};
  for (const auto& of : cases()) {
    std::vector<Tensor> inputs = inputs_of(of);
    EXPECT_NEAR(in_two_parts(*of.module, inputs), mean_loss(of, inputs, Values(kSamples, 1)), 1e-6) << of.name;
    const std::vector<Tensor> unweighted = inputs;
    inputs.push_back(tensor_of(by_sample, {kSamples}));
    EXPECT_NEAR(in_two_parts(*of.module, inputs), mean_loss(of, unweighted, by_sample), 1e-6) << of.name;
    inputs.back() = tensor_of(by_row, {kSamples, kRows});
    EXPECT_NEAR(in_two_parts(*of.module, inputs), mean_loss(of, unweighted, by_row), 1e-6) << of.name;
  }
}

TEST(Losses, TakeActivationsInSingleAndHalfPrecisionAndSumInSingle) {
  for (const auto& of : cases())
    for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 1e-5}, {DType::bf16, 2e-2}}) {
      const std::vector<Tensor> exact = inputs_of(of);
      Call call;
      for (const Tensor& x : exact) call.inputs.emplace_back(cast(x, call.inputs.empty() ? dtype : DType::f32));
      call.loss_scale = 1.0 / kSamples;
      const Tensor loss = of.module->forward(call).value();
      EXPECT_EQ(loss.dtype(), DType::f32) << of.name;
      EXPECT_NEAR(loss.item(), mean_loss(of, exact, Values(kSamples, 1)), tolerance) << of.name;
    }
}

TEST(Losses, HaveTheGradientsOfTheirValues) {
  for (const auto& of : cases())
    for (const bool is_weighted : {false, true}) {
      SCOPED_TRACE(of.name);
      Graph graph;
      std::vector<Value> values;
      std::vector<Tensor> inputs = inputs_of(of);
      for (size_t i = 0; i < of.inputs; ++i) values.push_back(graph.input(join("x", i), {kRows, kWidth}, DType::f64));
      if (is_weighted) {
        values.push_back(graph.input("weight", {}));
        inputs.push_back(tensor_of({1, 0, 2.5, 0.5, 1}, {kSamples}));
      }
      values[0] = graph.add("linear", Linear(kWidth, kWidth), values[0]);
      graph.loss(of.add_to(graph, values));
      sluice::testing::expect_gradients_like_differences(graph, inputs);
    }
}

TEST(BinaryCrossEntropy, NeitherOverflowsNorCancels) {
  const auto loss = [](double x, double t) { return run(BinaryCrossEntropy(), {tensor_of({x}, {1, 1}), tensor_of({t}, {1, 1})}, 1); };
  EXPECT_EQ(loss(1000, 0), 1000);
  EXPECT_EQ(loss(-1000, 1), 1000);
  EXPECT_NEAR(loss(20, 1) / std::exp(-20), 1, 1e-5);
  EXPECT_NEAR(loss(-20, 0) / std::exp(-20), 1, 1e-5);
}

TEST(BinaryCrossEntropy, TakesLabelsOfWholeNumbers) {
  const Tensor x = tensor_of({0.5, -1}, {2, 1});
  EXPECT_EQ(run(BinaryCrossEntropy(), {x, tensor_of({1, 0}, {2, 1}, DType::u8)}, 1),
            run(BinaryCrossEntropy(), {x, tensor_of({1, 0}, {2, 1})}, 1));
}

TEST(KLDivergence, IsTheSameOfLogitsAndOfLogProbabilities) {
  const Tensor x = drawn({kSamples, kWidth}, "x"), target = distributions(kSamples).slice(1, 0, 1).contiguous().reshape({kSamples, kWidth});
  Call call;
  call.inputs = {Var(x)};
  const double of_logits = run(KLDivergence(), {x, target}, 1);
  EXPECT_NEAR(run(KLDivergence(), {LogSoftmax().forward(call).value(), target}, 1), of_logits, 1e-12);
}

TEST(Losses, NameShapesThatDoNotFit) {
  const auto failing = [](const Module& loss, std::vector<Shape> shapes, std::initializer_list<std::string> words) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) inputs.push_back(zeros(shape));
    expect_error<UsageError>([&] { run(loss, inputs, 1); }, words);
  };
  failing(MeanSquaredError(), {{4, 1}, {4}}, {"MeanSquaredError", "one shape", "[4, 1] and [4]", "reshape"});
  failing(MeanSquaredError(), {{4, 3}, {4, 3}, {3}}, {"weights of the leading axes", "[4, 3]", "got [3]"});
  failing(MeanSquaredError(), {{4, 0}, {4, 0}}, {"4 samples", "got [4, 0]"});
  failing(KLDivergence(), {{4}, {4}}, {"KLDivergence", "4 samples", "got []"});
  failing(TripletMargin(), {{4, 2}, {4, 2}, {4, 3}}, {"TripletMargin", "three inputs", "[4, 3]"});
  expect_error<UsageError>([] { Huber(0); }, {"Huber", "delta > 0", "got 0"});
  expect_error<UsageError>([] { TripletMargin(-1); }, {"TripletMargin", "margin >= 0", "got -1"});
  expect_error<UsageError>([] { BinaryCrossEntropy(0); }, {"positive weight > 0", "got 0"});
  expect_error<UsageError>([] { MeanSquaredError().loss_weight({Tensor(), Tensor(), Tensor()}, 4); }, {"weights", "those of a node"});
}

TEST(LossSum, AddsTheMeansOfLossesThatCountOtherThings) {
  const auto sum = LossSum().with("label", CrossEntropy(), 2, {0, 1}).with("place", MeanSquaredError(), 0.5, {2, 3, 4});
  const std::vector<Tensor> inputs{
      drawn({kSamples, kRows, kWidth}, "logits"), tensor_of({0, -100, 1, 2, -100, -100, 2, 0, 0, 1}, {kSamples, kRows}, DType::i32),
      drawn({kSamples, kWidth}, "x"), drawn({kSamples, kWidth}, "t"), tensor_of({0, 1, 2, 0, 0.25}, {kSamples})};
  const std::vector<Tensor> of_labels(inputs.begin(), inputs.begin() + 2), of_places(inputs.begin() + 2, inputs.end());
  const double expected = 2 * run(CrossEntropy(), of_labels, 1.0 / 7) + 0.5 * run(MeanSquaredError(), of_places, 1 / 3.25);
  const std::vector<double> weights = sum.loss_weights(inputs, kSamples);
  EXPECT_EQ(weights, (std::vector<double>{kSamples, 7, 3.25}));
  double found = 0;
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, kSamples}}) {
    Call call;
    for (const Tensor& x : inputs) call.inputs.emplace_back(x.slice(0, begin, end));
    call.loss_scale = 1 / weights[0];
    call.loss_weights = weights;
    found += sum.forward(call).value().item();
  }
  EXPECT_NEAR(found, expected, 1e-6);
}

TEST(LossSum, LeavesOutALossOfWhichNothingCounts) {
  const auto sum = LossSum().with("a", MeanSquaredError(), 1, {0, 1}).with("b", MeanSquaredError(), 1, {0, 1, 2});
  Call call;
  call.inputs = {Var(full({2, 1}, 3)), Var(full({2, 1}, 1)), Var(zeros({2}))};
  call.loss_scale = 0.5;
  call.loss_weights = {2, 2, 0};
  EXPECT_EQ(sum.forward(call).value().item(), 4);
}

/// Forgets the scale.
class Unscaled : public Module {
 public:
  Var forward(const Call& call) const override { return sum(call.inputs[0]); }
};

TEST(LossSum, FindsAPartThatForgetsItsScale) {
  const auto sum = LossSum().with("a", MeanSquaredError(), 1, {0, 1}).with("b", Unscaled(), 1, {0});
  Call call;
  call.inputs = {Var(full({2, 1}, 3)), Var(full({2, 1}, 1))};
  expect_error<UsageError>([&] { sum.forward(call); }, {"LossSum", "Call::loss_scale", "loss 1", "Unscaled"});
  expect_error<UsageError>([] { LossSum().with("a", MeanSquaredError(), INFINITY, {0, 1}); }, {"finite factor", "got inf"});
  expect_error<UsageError>([] { LossSum().with("a", MeanSquaredError(), 1, {}); }, {"inputs that each loss reads"});
}

}  // namespace
}  // namespace sluice::layers
