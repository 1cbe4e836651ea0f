#include "autograd/optim/optimizer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/name_pattern.h"
#include "core/ops/copy.h"
#include "core/random.h"
#include "tests/expect_error.h"
#include "tests/tolerance.h"

namespace sluice {
namespace {

constexpr int64_t kElements = 37;  // whole registers and a tail
constexpr int kSteps = 5;

Tensor normal(const std::string& name, DType dtype) {
  const Tensor exact = empty({kElements}, DType::f64);
  fill_normal(exact, 0, 1, random_key(1, name));
  return tensor_of(exact.to_vector(), {kElements}, dtype);
}

/// One element's history after the textbook, in f64.
struct Scalar {
  double parameter, m = 0, v = 0;
};
struct Conditions {
  double learning_rate;
  int64_t step;
  double gradient_scale = 1;
  bool decay = true;
};
using Rule = void (*)(Scalar& state, double gradient, const Conditions& now);

/// kSteps steps of the optimizer against the rule on every element. A scale below 1 comes from clipping a norm of 4.
void expect_follows(const Optimizer& optimizer, Rule rule, DType dtype, double gradient_scale = 1, bool decay = true) {
  const Tensor parameter = normal("parameter", dtype);
  std::vector<Tensor> states;
  for (size_t i = 0; i < optimizer.state_names().size(); ++i) states.push_back(zeros({kElements}, dtype));
  std::vector<Scalar> expected;
  for (double value : parameter.to_vector()) expected.push_back({value});
  for (int step = 1; step <= kSteps; ++step) {
    const Conditions now{0.01 * step, step, gradient_scale, decay};
    const Tensor gradient = normal("gradient" + std::to_string(step), dtype);
    optimizer.apply({{parameter, gradient, states, decay}}, {now.learning_rate, step, {full({}, 16, DType::f64), 4 * gradient_scale}});
    const auto values = gradient.to_vector();
    for (int64_t i = 0; i < kElements; ++i) rule(expected[i], values[i], now);
  }
  const auto got = parameter.to_vector();
  for (int64_t i = 0; i < kElements; ++i) EXPECT_NEAR(got[i], expected[i].parameter, testing::tolerance_of(dtype).value) << "element " << i;
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
  expect_follows_everywhere(sgd, [](Scalar& s, double gradient, const Conditions& now) {
    s.parameter -= now.learning_rate * (now.gradient_scale * gradient + (now.decay ? 0.1 : 0) * s.parameter);
  });
}

TEST(SGD, FollowsItsFormulaWithMomentum) {
  expect_follows_everywhere(SGD({.momentum = 0.9, .weight_decay = 0.1}), [](Scalar& s, double gradient, const Conditions& now) {
    s.m = 0.9 * s.m + now.gradient_scale * gradient + (now.decay ? 0.1 : 0) * s.parameter;
    s.parameter -= now.learning_rate * s.m;
  });
}

TEST(SGD, FollowsItsFormulaWithNesterovMomentum) {
  expect_follows_everywhere(SGD({.momentum = 0.8, .nesterov = true}), [](Scalar& s, double gradient, const Conditions& now) {
    const double g = now.gradient_scale * gradient;
    s.m = 0.8 * s.m + g;
    s.parameter -= now.learning_rate * (g + 0.8 * s.m);
  });
}

TEST(RMSProp, KeepsEpsilonInsideTheRoot) {
  expect_follows_everywhere(RMSProp({.average = 0.8, .momentum = 0.7, .epsilon = 0.5, .weight_decay = 0.1}),
                            [](Scalar& s, double gradient, const Conditions& now) {
                              const double g = now.gradient_scale * gradient + (now.decay ? 0.1 : 0) * s.parameter;
                              s.m = 0.8 * s.m + 0.2 * g * g;
                              s.v = 0.7 * s.v + now.learning_rate * g / std::sqrt(s.m + 0.5);
                              s.parameter -= s.v;
                            });
}

TEST(RMSProp, WithoutMomentumHasTheSquareAlone) {
  const RMSProp rmsprop({.average = 0.8, .momentum = 0, .epsilon = 0.5, .weight_decay = 0.1});
  EXPECT_EQ(rmsprop.state_names(), std::vector<std::string>{"square"});
  expect_follows_everywhere(rmsprop, [](Scalar& s, double gradient, const Conditions& now) {
    const double g = now.gradient_scale * gradient + (now.decay ? 0.1 : 0) * s.parameter;
    s.m = 0.8 * s.m + 0.2 * g * g;
    s.parameter -= now.learning_rate * g / std::sqrt(s.m + 0.5);
  });
}

void adam_rule(Scalar& s, double g, const Conditions& now) {
  s.m = 0.8 * s.m + 0.2 * g;
  s.v = 0.95 * s.v + 0.05 * g * g;
  const double mean = s.m / (1 - std::pow(0.8, now.step)), square = s.v / (1 - std::pow(0.95, now.step));
  s.parameter -= now.learning_rate * mean / (std::sqrt(square) + 1e-6);
}

TEST(Adam, AddsWeightDecayToTheGradient) {
  expect_follows_everywhere(Adam({.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}),
                            [](Scalar& s, double gradient, const Conditions& now) {
                              adam_rule(s, now.gradient_scale * gradient + (now.decay ? 0.1 : 0) * s.parameter, now);
                            });
}

TEST(Adam, WithoutBeta1HasTheSquareAlone) {
  const AdamW adam({.beta1 = 0, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0});
  EXPECT_EQ(adam.state_names(), std::vector<std::string>{"v"});
  expect_follows_everywhere(adam, [](Scalar& s, double gradient, const Conditions& now) {
    const double g = now.gradient_scale * gradient;
    s.v = 0.95 * s.v + 0.05 * g * g;
    s.parameter -= now.learning_rate * g / (std::sqrt(s.v / (1 - std::pow(0.95, now.step))) + 1e-6);
  });
}

TEST(AdamW, DecaysTheParameterApartFromTheGradient) {
  expect_follows_everywhere(AdamW({.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1}),
                            [](Scalar& s, double gradient, const Conditions& now) {
                              s.parameter *= 1 - now.learning_rate * (now.decay ? 0.1 : 0);
                              adam_rule(s, now.gradient_scale * gradient, now);
                            });
}

TEST(Lion, TakesTheSignOfTheAverage) {
  const auto rule = [](Scalar& s, double gradient, const Conditions& now) {
    const double g = now.gradient_scale * gradient, way = 0.8 * s.m + 0.2 * g;
    s.parameter *= 1 - now.learning_rate * (now.decay ? 0.1 : 0);
    s.parameter -= now.learning_rate * (way > 0 ? 1 : way < 0 ? -1 : 0);
    s.m = 0.95 * s.m + 0.05 * g;
  };
  const Lion lion({.beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1});
  EXPECT_EQ(lion.state_names(), std::vector<std::string>{"m"});
  expect_follows_everywhere(lion, rule);
}

TEST(Lion, LeavesAParameterWithoutAGradientInItsPlace) {
  const Tensor parameter = full({3}, 2), m = zeros({3});
  Lion({.lr = 1}).apply({{parameter, zeros({3}), {m}}}, {1, 1});
  EXPECT_EQ(parameter.to_vector(), std::vector<double>(3, 2)) << "the sign of 0 is 0";
}

/// Two steps of each of the parameters "trunk.weight", "head.weight", "head.bias"; the last does not decay.
std::vector<double> stepped(const Optimizer& optimizer) {
  std::vector<OptimizerSlot> slots;
  for (const char* name : {"trunk.weight", "head.weight", "head.bias"}) {
    OptimizerSlot slot{.parameter = full({1}, 1), .gradient = full({1}, 2), .states = {}};
    slot.decay = std::string(name) != "head.bias";
    slot.name = name;
    slots.push_back(slot);
  }
  for (const int64_t step : {0, 1}) optimizer.step(slots, {optimizer.rate.at(step), step + 1});
  std::vector<double> values;
  for (const auto& slot : slots) values.push_back(slot.parameter.item());
  return values;
}

TEST(ParameterGroups, HaveARateAndAWeightDecayOfTheirOwn) {
  SGD optimizer({.lr = 0.5, .weight_decay = 0.25});
  optimizer.rate.function = [](int64_t step) { return step == 0 ? 0.5 : 0.25; };
  const auto after = [](double lr, double decay) {
    double value = 1;
    for (const double rate : {lr, lr / 2}) value -= rate * (2 + decay * value);
    return value;
  };
  EXPECT_EQ(stepped(optimizer), (std::vector<double>{after(0.5, 0.25), after(0.5, 0.25), after(0.5, 0)}));
  optimizer.groups({{"head.*", {.lr = 0.125}}});
  EXPECT_EQ(stepped(optimizer), (std::vector<double>{after(0.5, 0.25), after(0.125, 0.25), after(0.125, 0)}));
  optimizer.groups({{"*.bias", {.lr = 0}}, {"head.*", {.weight_decay = 0}}, {"*", {.lr = 0.25, .weight_decay = 0.5}}});
  EXPECT_EQ(stepped(optimizer), (std::vector<double>{after(0.25, 0.5), after(0.5, 0), 1})) << "the first that says a name counts";
  EXPECT_EQ(stepped(*optimizer.clone()), stepped(optimizer));
}

TEST(ParameterGroups, AreCheckedWithTheCure) {
  AdamW optimizer({.lr = 0.5});
  expect_error<UsageError>([&] { optimizer.groups({{"head.*", {.lr = -1}}}); }, {"adamw", "lr in [0, inf)", "'head.*'", "-1"});
  expect_error<UsageError>([&] { optimizer.groups({{"head.*", {.weight_decay = NAN}}}); }, {"weight_decay in [0, inf)", "'head.*'"});
  expect_error<UsageError>([] { AdamW({.lr = 0}).groups({{"head.*", {.lr = 1}}}); }, {"'head.*'", "lr > 0"});
  SGD later({.lr = 0.5});
  later.groups({{"head.*", {.lr = 1}}});
  later.rate.base = 0;
  expect_error<UsageError>([&] { stepped(later); }, {"'head.*'", "lr > 0"});
  expect_error<UsageError>([&] { later.require_groups({"head.weight"}); }, {"'head.*'", "lr > 0"});
  optimizer.groups({{"heads.*", {.lr = 1}}});
  expect_error<UsageError>(
      [&] {
        optimizer.require_groups({"trunk.weight", "head.weight"});
      },
      {"adamw", "one of the 2 parameters", "'heads.*'", "NODE.*"});
  EXPECT_NO_THROW(optimizer.require_groups({"heads.weight"}));
}

TEST(LearningRate, OfAFunctionIsCheckedAtEveryStep) {
  LearningRate rate;
  rate.function = [](int64_t step) { return 1.0 / static_cast<double>(step); };
  EXPECT_EQ(rate.at(4), 0.25);
  expect_error<UsageError>([&] { rate.at(0); }, {"learning rate", "finite", "inf", "step 0"});
}

TEST(NamePattern, StandsForLettersOfANameDotsAmongThem) {
  for (const char* pattern : {"block1.attention.weight", "block1.*", "*weight", "block?.*", "block[0-3].*", "*"})
    EXPECT_TRUE(matches_pattern(pattern, "block1.attention.weight")) << pattern;
  for (const char* pattern : {"block1", "weight", "block2.*", "block[2-3].*", ""})
    EXPECT_FALSE(matches_pattern(pattern, "block1.attention.weight")) << pattern;
}

TEST(Optimizer, RefusesTensorsThatAreNotLikeTheParameter) {
  const AdamW adam({.lr = 1e-3});
  const Tensor x = zeros({3});
  const std::vector<Tensor> states{zeros({3}), zeros({3})};
  const Tensor copy = zeros({3}, DType::bf16);
  EXPECT_NO_THROW(adam.apply({{x, zeros({3}), states, true, copy}}, {0.1, 1}));
  EXPECT_THROW(adam.apply({{x, zeros({4}), states}}, {0.1, 1}), UsageError);
  EXPECT_THROW(adam.apply({{x, zeros({3}), {states[0]}}}, {0.1, 1}), UsageError);
  EXPECT_THROW(adam.apply({{x, zeros({3}, DType::f64), states}}, {0.1, 1}), UsageError);
  EXPECT_THROW(adam.apply({{x, zeros({3}), states, true, zeros({3})}}, {0.1, 1}), UsageError) << "a copy in f32";
  EXPECT_THROW(adam.apply({{x, zeros({3}), states}}, {0.1, 1, {zeros({1}, DType::f64), 1}}), UsageError) << "a norm with an axis";
}

/// A parameter of several chunks with a tail, its gradient and states, and a working copy.
OptimizerSlot large_slot(const std::string& name, const DevicePtr& device) {
  const Shape shape{40001};
  OptimizerSlot slot{empty(shape, DType::f32, device),
                     empty(shape, DType::f32, device),
                     {zeros(shape, DType::f32, device), zeros(shape, DType::f32, device)}};
  fill_normal(slot.parameter, 0, 1, random_key(1, name));
  fill_normal(slot.gradient, 0, 1, random_key(2, name));
  slot.working = zeros(shape, DType::bf16, device);
  return slot;
}

TEST(Optimizer, StepsAListAsItStepsEachAloneWithAnyNumberOfThreads) {
  const Adam adam({.lr = 0.1});
  const auto stepped = [&](int threads, bool together) {
    const auto device = make_device("cpu:0", {.threads = threads});
    std::vector<OptimizerSlot> slots{large_slot("a", device), large_slot("b", device)};
    slots[1].stochastic = RandomStream{7, 1};
    if (together) {
      adam.apply(slots, {0.1, 1});
    } else {
      for (const auto& slot : slots) adam.apply({slot}, {0.1, 1});
    }
    std::vector<std::vector<double>> results;
    for (const auto& slot : slots)
      for (const Tensor& x : {slot.parameter, slot.states[0], slot.states[1], slot.working}) results.push_back(x.to_vector());
    return results;
  };
  const auto alone = stepped(1, false);
  EXPECT_EQ(stepped(1, true), alone);
  EXPECT_EQ(stepped(3, true), alone);
}

TEST(Optimizer, WritesTheNearestBf16IntoTheWorkingCopy) {
  const OptimizerSlot slot = large_slot("a", default_device());
  SGD({.lr = 0.1, .momentum = 0}).apply({{slot.parameter, slot.gradient, {}, true, slot.working}}, {0.1, 1});
  EXPECT_EQ(slot.working.to_vector(), cast(slot.parameter, DType::bf16).to_vector());
}

TEST(Optimizer, ChangesNothingWhenTheNormIsNotFinite) {
  for (const float bad : {INFINITY, NAN}) {
    const OptimizerSlot slot = large_slot("a", default_device());
    const auto before = slot.parameter.to_vector();
    Adam({.lr = 0.1}).apply({slot}, {0.1, 1, {full({}, bad, DType::f64), 1}});
    SGD({.lr = 0.1}).apply({{slot.parameter, slot.gradient, {}, true, slot.working}}, {0.1, 1, {full({}, bad, DType::f64), 0}});
    EXPECT_EQ(slot.parameter.to_vector(), before);
    for (const Tensor& x : {slot.states[0], slot.states[1], slot.working}) EXPECT_EQ(x.to_vector(), std::vector<double>(before.size(), 0));
  }
}

TEST(StochasticRounding, TakesOneOfTheTwoNeighboursAndIsRightOnAverage) {
  constexpr int64_t kCount = 1 << 16;
  const Tensor copy = empty({kCount}, DType::bf16);
  for (const float value : {1.0f + 0x1p-10f, -1.0f - 0x1.8p-8f, 3e-39f, 0x1.234568p+30f, 5.0f}) {
    round_stochastically(full({kCount}, value), copy, {random_key(1, "rounding"), 3});
    const auto word = std::bit_cast<uint32_t>(value);
    const double lower = std::bit_cast<float>(word & 0xffff0000u), upper = std::bit_cast<float>((word & 0xffff0000u) + 0x10000u);
    double sum = 0;
    for (const double rounded : copy.to_vector()) {
      ASSERT_TRUE(rounded == lower || (rounded == upper && value != lower)) << rounded << " for " << value;
      sum += rounded;
    }
    // Five standard deviations of the mean of kCount draws that are at most half the gap from it.
    EXPECT_NEAR(sum / kCount, value, 5 * 0.5 * std::abs(upper - lower) / std::sqrt(kCount));
  }
}

TEST(StochasticRounding, KeepsInfinityAndNaN) {
  const Tensor copy = empty({3}, DType::bf16);
  round_stochastically(tensor_of({INFINITY, -INFINITY, NAN}, {3}), copy, {1, 1});
  const auto rounded = copy.to_vector();
  EXPECT_EQ(rounded[0], INFINITY);
  EXPECT_EQ(rounded[1], -INFINITY);
  EXPECT_TRUE(std::isnan(rounded[2]));
}

TEST(StochasticRounding, DependsOnKeyStepAndElement) {
  const Tensor half = full({4096}, 1 + 0x1p-8), copy = empty({4096}, DType::bf16);
  const auto rounded = [&](const RandomStream& stream) {
    round_stochastically(half, copy, stream);
    return copy.to_vector();
  };
  const auto first = rounded({1, 1});
  EXPECT_EQ(rounded({1, 1}), first);
  EXPECT_NE(rounded({2, 1}), first);
  EXPECT_NE(rounded({1, 2}), first);
}

TEST(Optimizer, IsMadeByNameAndKeepsItsRate) {
  for (const char* name : {"sgd", "rmsprop", "adam", "adamw", "lion"}) {
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
  expect_error<UsageError>([] { Adam({.lr = -1}); }, {"adam: needs lr"});
  expect_error<UsageError>([] { AdamW({.lr = -1}); }, {"adamw: needs lr"});
}

TEST(LearningRate, WarmsUpLinearlyToTheBase) {
  for (const char* kind : {"constant", "cosine", "inverse-sqrt", "exponential"}) {
    const LearningRate rate{.base = 2, .kind = rate_kind_named(kind), .warmup_steps = 4, .total_steps = 10};
    EXPECT_DOUBLE_EQ(rate.at(0), 0.5) << kind;
    EXPECT_DOUBLE_EQ(rate.at(3), 2) << kind;
  }
}

TEST(LearningRate, CosineEndsAtItsMinimumAndStaysThere) {
  const LearningRate rate{.base = 2, .kind = LearningRate::Kind::cosine, .warmup_steps = 4, .total_steps = 10, .minimum = 0.5};
  EXPECT_DOUBLE_EQ(rate.at(4), 2);
  EXPECT_DOUBLE_EQ(rate.at(7), 1.25);
  EXPECT_DOUBLE_EQ(rate.at(10), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.5);
}

TEST(LearningRate, InverseSqrtHalvesWhenTheStepsQuadruple) {
  const LearningRate rate{.base = 2, .kind = LearningRate::Kind::inverse_sqrt, .warmup_steps = 100};
  EXPECT_DOUBLE_EQ(rate.at(399), 1);
  EXPECT_DOUBLE_EQ(rate.at(1599), 0.5);
}

TEST(LearningRate, ExponentialDecaysEveryDecaySteps) {
  const LearningRate rate{
      .base = 2, .kind = LearningRate::Kind::exponential, .warmup_steps = 5, .minimum = 0.1, .decay = 0.5, .decay_steps = 10};
  EXPECT_DOUBLE_EQ(rate.at(5), 2);
  EXPECT_DOUBLE_EQ(rate.at(15), 1);
  EXPECT_DOUBLE_EQ(rate.at(25), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(1005), 0.1);
}

TEST(LearningRate, AStaircaseFallsOnceEveryDecaySteps) {
  const LearningRate rate{
      .base = 2, .kind = LearningRate::Kind::exponential, .warmup_steps = 5, .decay = 0.5, .decay_steps = 10, .staircase = true};
  EXPECT_DOUBLE_EQ(rate.at(14), 2);
  EXPECT_DOUBLE_EQ(rate.at(15), 1);
  EXPECT_DOUBLE_EQ(rate.at(24), 1);
  EXPECT_DOUBLE_EQ(rate.at(25), 0.5);
}

TEST(LearningRate, RefusesWhatItCannotFollow) {
  EXPECT_NO_THROW(LearningRate{}.validate());
  EXPECT_THROW((LearningRate{.base = -1}.validate()), UsageError);
  EXPECT_THROW((LearningRate{.base = NAN}.validate()), UsageError);
  EXPECT_THROW((LearningRate{.kind = LearningRate::Kind::cosine}.validate()), UsageError) << "without total_steps";
  EXPECT_THROW((LearningRate{.kind = LearningRate::Kind::exponential, .decay = 2}.validate()), UsageError);
  EXPECT_THROW((LearningRate{.base = 1, .minimum = 2}.validate()), UsageError);
  try {
    rate_kind_named("cosin");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'cosine'?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sluice
