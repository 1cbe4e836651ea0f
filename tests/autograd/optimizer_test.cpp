#include "autograd/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"

namespace sluice {
namespace {

constexpr int64_t kElements = 37;  // whole registers and a tail
constexpr int kSteps = 5;
using Update = Optimizer::Update;

Tensor normal(const std::string& name, DType dtype) {
  const Tensor exact = empty({kElements}, DType::f64);
  fill_normal(exact, 0, 1, random_key(1, name));
  return tensor_of(exact.to_vector(), {kElements}, dtype);
}

/// One element's history after the textbook, in f64.
struct Scalar {
  double parameter, m = 0, v = 0;
};
using Rule = void (*)(Scalar& state, double gradient, const Update& update);

/// kSteps steps of the optimizer against the rule on every element.
void expect_follows(const Optimizer& optimizer, Rule rule, DType dtype, double gradient_scale = 1, bool decay = true) {
  const Tensor parameter = normal("parameter", dtype);
  std::vector<Tensor> states;
  for (size_t i = 0; i < optimizer.state_names().size(); ++i) states.push_back(zeros({kElements}, dtype));
  std::vector<Scalar> expected;
  for (double value : parameter.to_vector()) expected.push_back({value});
  for (int step = 1; step <= kSteps; ++step) {
    const Update update{0.01 * step, step, gradient_scale, decay};
    const Tensor gradient = normal("gradient" + std::to_string(step), dtype);
    optimizer.apply(parameter, gradient, states, update);
    const auto values = gradient.to_vector();
    for (int64_t i = 0; i < kElements; ++i) rule(expected[i], values[i], update);
  }
  const auto got = parameter.to_vector();
  for (int64_t i = 0; i < kElements; ++i) EXPECT_NEAR(got[i], expected[i].parameter, dtype == DType::f64 ? 1e-13 : 2e-6) << "element " << i;
}

void expect_follows_everywhere(const Optimizer& optimizer, Rule rule) {
  for (DType dtype : {DType::f64, DType::f32}) {
    expect_follows(optimizer, rule, dtype);
    expect_follows(optimizer, rule, dtype, 0.25);
    expect_follows(optimizer, rule, dtype, 1, false);
  }
}

TEST(SGD, WithoutMomentumHasNoState) {
  const SGD sgd({.lr = 0.1, .weight_decay = 0.1});
  EXPECT_TRUE(sgd.state_names().empty());
  expect_follows_everywhere(sgd, [](Scalar& s, double gradient, const Update& update) {
    s.parameter -= update.learning_rate * (update.gradient_scale * gradient + (update.decay ? 0.1 : 0) * s.parameter);
  });
}

TEST(SGD, FollowsItsFormulaWithMomentum) {
  expect_follows_everywhere(SGD({.momentum = 0.9, .weight_decay = 0.1}), [](Scalar& s, double gradient, const Update& update) {
    s.m = 0.9 * s.m + update.gradient_scale * gradient + (update.decay ? 0.1 : 0) * s.parameter;
    s.parameter -= update.learning_rate * s.m;
  });
}

TEST(SGD, FollowsItsFormulaWithNesterovMomentum) {
  expect_follows_everywhere(SGD({.momentum = 0.8, .nesterov = true}), [](Scalar& s, double gradient, const Update& update) {
    const double g = update.gradient_scale * gradient;
    s.m = 0.8 * s.m + g;
    s.parameter -= update.learning_rate * (g + 0.8 * s.m);
  });
}

void adam_rule(Scalar& s, double g, const Update& update) {
  s.m = 0.8 * s.m + 0.2 * g;
  s.v = 0.95 * s.v + 0.05 * g * g;
  const double mean = s.m / (1 - std::pow(0.8, update.step)), square = s.v / (1 - std::pow(0.95, update.step));
  s.parameter -= update.learning_rate * mean / (std::sqrt(square) + 1e-6);
}

TEST(Adam, AddsWeightDecayToTheGradient) {
  expect_follows_everywhere(Adam({.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}),
                            [](Scalar& s, double gradient, const Update& update) {
                              adam_rule(s, update.gradient_scale * gradient + (update.decay ? 0.1 : 0) * s.parameter, update);
                            });
}

TEST(AdamW, DecaysTheParameterApartFromTheGradient) {
  expect_follows_everywhere(AdamW({.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}),
                            [](Scalar& s, double gradient, const Update& update) {
                              s.parameter *= 1 - update.learning_rate * (update.decay ? 0.1 : 0);
                              adam_rule(s, update.gradient_scale * gradient, update);
                            });
}

TEST(Optimizer, RefusesTensorsThatAreNotLikeTheParameter) {
  const AdamW adam({.lr = 1e-3});
  const Tensor x = zeros({3});
  EXPECT_THROW(adam.apply(x, zeros({4}), {zeros({3}), zeros({3})}, {0.1, 1}), UsageError);
  EXPECT_THROW(adam.apply(x, zeros({3}), {zeros({3})}, {0.1, 1}), UsageError);
  EXPECT_THROW(adam.apply(x, zeros({3}, DType::f64), {zeros({3}), zeros({3})}, {0.1, 1}), UsageError);
}

TEST(Optimizer, IsMadeByNameAndKeepsItsRate) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    const auto optimizer = make_optimizer(name, {.lr = 0.25});
    EXPECT_EQ(optimizer->name(), name);
    EXPECT_EQ(optimizer->clone()->name(), name);
    EXPECT_EQ(optimizer->clone()->rate.base, 0.25);
  }
}

TEST(Optimizer, NamesTheNearestWhenItDoesNotKnowTheName) {
  try {
    make_optimizer("adamv", {});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'adam"), std::string::npos) << error.what();
  }
}

TEST(Optimizer, RefusesOptionsOutOfRange) {
  EXPECT_THROW(SGD({.lr = -1}), UsageError);
  EXPECT_THROW(SGD({.momentum = 1}), UsageError);
  EXPECT_THROW(SGD({.nesterov = true}), UsageError);
  EXPECT_THROW(Adam({.lr = NAN}), UsageError);
  EXPECT_THROW(Adam({.beta2 = 1}), UsageError);
  EXPECT_THROW(AdamW({.epsilon = 0}), UsageError);
}

TEST(LearningRate, WarmsUpLinearlyToTheBase) {
  for (const char* kind : {"constant", "cosine", "inverse-sqrt", "exponential"}) {
    const LearningRate rate{.base = 2, .kind = kind, .warmup_steps = 4, .total_steps = 10};
    EXPECT_DOUBLE_EQ(rate.at(0), 0.5) << kind;
    EXPECT_DOUBLE_EQ(rate.at(3), 2) << kind;
  }
}

TEST(LearningRate, CosineEndsAtItsMinimumAndStaysThere) {
  const LearningRate rate{.base = 2, .kind = "cosine", .warmup_steps = 4, .total_steps = 10, .minimum = 0.5};
  EXPECT_DOUBLE_EQ(rate.at(4), 2);
  EXPECT_DOUBLE_EQ(rate.at(7), 1.25);
  EXPECT_DOUBLE_EQ(rate.at(10), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.5);
}

TEST(LearningRate, InverseSqrtHalvesWhenTheStepsQuadruple) {
  const LearningRate rate{.base = 2, .kind = "inverse-sqrt", .warmup_steps = 100};
  EXPECT_DOUBLE_EQ(rate.at(399), 1);
  EXPECT_DOUBLE_EQ(rate.at(1599), 0.5);
}

TEST(LearningRate, ExponentialDecaysEveryDecaySteps) {
  const LearningRate rate{.base = 2, .kind = "exponential", .warmup_steps = 5, .minimum = 0.1, .decay = 0.5, .decay_steps = 10};
  EXPECT_DOUBLE_EQ(rate.at(5), 2);
  EXPECT_DOUBLE_EQ(rate.at(15), 1);
  EXPECT_DOUBLE_EQ(rate.at(25), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(1005), 0.1);
}

TEST(LearningRate, RefusesWhatItCannotFollow) {
  EXPECT_NO_THROW(LearningRate{}.validate());
  EXPECT_THROW((LearningRate{.base = -1}.validate()), UsageError);
  EXPECT_THROW((LearningRate{.base = NAN}.validate()), UsageError);
  EXPECT_THROW((LearningRate{.kind = "cosine"}.validate()), UsageError) << "without total_steps";
  EXPECT_THROW((LearningRate{.kind = "exponential", .decay = 2}.validate()), UsageError);
  EXPECT_THROW((LearningRate{.base = 1, .minimum = 2}.validate()), UsageError);
  try {
    LearningRate{.kind = "cosin"}.validate();
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'cosine'?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sluice
