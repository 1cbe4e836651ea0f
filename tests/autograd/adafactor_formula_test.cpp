// Adafactor's steps against its formula, written again in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/optim/optimizer.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "tests/expect_error.h"
#include "tests/tolerance.h"

namespace sluice {
namespace {

constexpr int kSteps = 5;

struct Conditions {
  double learning_rate;
  int64_t step;
  double gradient_scale = 1;
  bool decay = true;
};

/// adafactor_step on a matrix, or on one row that is not factored, in f64 and as its header says it.
class PlainAdafactor {
 public:
  PlainAdafactor(const Tensor& parameter, const Adafactor::Options& options, double least)
      : options_(options),
        parameter_(parameter.to_vector()),
        is_factored_(parameter.rank() > 1),
        rows_(is_factored_ ? parameter.dim(0) : 1),
        columns_(parameter.elements() / rows_),
        least_(least),
        row_(rows_),
        column_(columns_) {}

  void step(const std::vector<double>& gradient, const Conditions& now) {
    const double taken = std::pow(now.step, -options_.decay);
    std::vector<double> rows(rows_), columns(columns_), update(gradient.size());
    double updates = 0, parameters = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double square = std::pow(now.gradient_scale * gradient[i], 2);
      rows[i / columns_] += square / static_cast<double>(columns_);
      columns[i % columns_] += square / static_cast<double>(rows_);
    }
    for (size_t i = 0; i < rows_; ++i) row_[i] = (1 - taken) * row_[i] + taken * rows[i];
    for (size_t j = 0; j < columns_; ++j) column_[j] = (1 - taken) * column_[j] + taken * columns[j];
    double mean = 0;
    for (const double value : row_) mean += value / static_cast<double>(rows_);
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double square = is_factored_ ? row_[i / columns_] * column_[i % columns_] / std::max(mean, least_) : column_[i];
      update[i] = now.gradient_scale * gradient[i] / std::sqrt(std::max(square, least_ * least_));
      updates += update[i] * update[i];
      parameters += parameter_[i] * parameter_[i];
    }
    const auto rms = [&](double sum) { return std::sqrt(sum / static_cast<double>(gradient.size())); };
    const double rate = std::min(now.learning_rate, 1 / std::sqrt(now.step)) * std::max(options_.least_scale, rms(parameters)) /
                        std::max(1.0, rms(updates) / options_.threshold);
    for (size_t i = 0; i < gradient.size(); ++i)
      parameter_[i] = (1 - now.learning_rate * (now.decay ? options_.weight_decay : 0)) * parameter_[i] - rate * update[i];
  }
  const std::vector<double>& parameter() const { return parameter_; }

 private:
  Adafactor::Options options_;
  std::vector<double> parameter_;
  bool is_factored_;
  size_t rows_, columns_;
  double least_;
  std::vector<double> row_, column_;
};

void expect_follows_adafactor(const Shape& shape, const Adafactor::Options& options, DType dtype, double scale, int threads) {
  const auto device = make_device("cpu:0", {.threads = threads});
  const auto values = [&](const std::string& name, double factor) {
    const Tensor exact = empty(shape, DType::f64);
    fill_normal(exact, 0, factor, random_key(1, name));
    return cast(exact, dtype).to(device);
  };
  const Adafactor optimizer(options);
  OptimizerSlot slot{.parameter = values("parameter", scale), .gradient = {}, .states = {}};
  for (const auto& state : optimizer.states_of(shape)) slot.states.push_back(zeros(state.shape, dtype, device));
  PlainAdafactor expected(slot.parameter, options, dtype == DType::f32 ? 0x1p-23 : 0x1p-52);
  for (int step = 1; step <= kSteps; ++step) {
    const Conditions now{0.1 * step, step, 0.25, step % 2 == 0};
    slot.gradient = values("gradient" + std::to_string(step), step == 3 ? 1e-9 : 2.0);
    slot.decay = now.decay;
    optimizer.apply({slot}, {now.learning_rate, step, {full({}, 16, DType::f64, device), 1}});
    expected.step(slot.gradient.to_vector(), now);
  }
  const auto got = slot.parameter.to_vector();
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected.parameter()[i], testing::tolerance_of(dtype).value * std::max(1.0, std::abs(got[i])))
        << shape << " of " << name_of(dtype) << ", element " << i;
}

TEST(Adafactor, FollowsItsFormula) {
  for (const Shape& shape : {Shape{37}, {5, 7}, {1, 9}, {9, 1}, {3, 4, 6}, {130, 70}, {3, 5000}, {9001}, {}})
    for (const DType dtype : {DType::f64, DType::f32}) {
      expect_follows_adafactor(shape, {.weight_decay = 0.1}, dtype, 1, 1);
      expect_follows_adafactor(shape, {.decay = 0.5, .least_scale = 0.5, .threshold = 0.25}, dtype, 1e-3, 2);
    }
}

TEST(Adafactor, HasTheSameBitsOfAnyNumberOfThreads) {
  const auto stepped = [](int threads) {
    const auto device = make_device("cpu:0", {.threads = threads});
    std::vector<double> all;
    for (const Shape& shape : {Shape{300, 171}, {40000}, {5, 9001}}) {
      const auto values = [&](const char* name) {
        const Tensor x = empty(shape);
        fill_normal(x, 0, 1, random_key(1, name));
        return x.to(device);
      };
      OptimizerSlot slot{.parameter = values("parameter"), .gradient = values("gradient"), .states = {}};
      slot.working = empty(shape, DType::bf16, device);
      slot.stochastic = RandomStream{random_key(5, "adafactor"), 2};
      for (const auto& state : Adafactor({}).states_of(shape)) slot.states.push_back(zeros(state.shape, DType::f32, device));
      Adafactor({.lr = 0.1}).apply({slot}, {0.1, 1});
      for (const Tensor* x : {&slot.parameter, &slot.states[0], &slot.working})
        for (const double value : x->to_vector()) all.push_back(value);
    }
    return all;
  };
  const auto one = stepped(1);
  for (const int threads : {2, 3}) EXPECT_EQ(stepped(threads), one) << threads;
}

TEST(Adafactor, SaysWhatItNeeds) {
  const Tensor matrix = zeros({4, 3});
  const auto step = [&](const std::vector<Tensor>& states, int64_t first = 0) {
    OptimizerSlot slot{.parameter = matrix, .gradient = zeros({4, 3}), .states = states};
    slot.first_element = first;
    Adafactor({}).apply({slot}, {0.1, 1});
  };
  expect_error<UsageError>([&] { step({zeros({4, 3})}); }, {"needs 2 states of a parameter [4, 3]", "got 1"});
  expect_error<UsageError>([&] { step({zeros({3}), zeros({4})}); }, {"needs a state f32 [4]", "got"});
  expect_error<UsageError>([&] { step({zeros({4}), zeros({3})}, 8); }, {"whole parameters", "element 8"});
  expect_error<UsageError>([] { Adafactor({.decay = 0}); }, {"adafactor", "decay in (0, 1], got 0"});
  expect_error<UsageError>([] { Adafactor({.threshold = 0}); }, {"adafactor", "threshold > 0, got 0"});
}

}  // namespace
}  // namespace sluice
