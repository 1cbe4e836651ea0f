#include "autograd/gradient_check.h"

#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "autograd/ops/cast.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/gather.h"
#include "autograd/ops/operators.h"
#include "autograd/ops/reduction.h"
#include "core/elements.h"
#include "core/random.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

Tensor drawn(const Shape& shape, uint64_t key) { return randn(shape, key, DType::f64); }

Var tripled(const Var& x, double slope) {
  return record("tripled", (x * 3).value(), {x}, {}, slope,
                [](const Node& node, const Tensor& dy, Needs) { return Gradients{scale(dy, node.attribute<double>())}; });
}

TEST(GradientCheck, AcceptsGradientsOfFunctionsOfSeveralInputsAndOfAnyShape) {
  gradient_check([](const auto& x) { return exp(x[0]) * x[1] + x[0]; }, {drawn({2, 3}, 1), drawn({3}, 2)});
  gradient_check([](const auto& x) { return gather(x[0], 0, x[1].value()); }, {drawn({4}, 1), tensor({3, 0, 3})});
  gradient_check([](const auto& x) { return tripled(x[0], 3); }, {drawn({2}, 1)});
}

TEST(GradientCheck, NamesInputElementAndBothNumbers) {
  const auto wrong = [](const auto& x) { return sum(x[0] + tripled(x[1], 2)); };
  expect_error<UsageError>(
      [&] {
        gradient_check(wrong, {drawn({2}, 1), drawn({2}, 2)});
      },
      {"gradient of input 1, element 0", "central differences", "mend the backward function"});
}

TEST(GradientCheck, FindsAGradientThatDoesNotReachAnInput) {
  const auto cut = [](const auto& x) { return x[0] * x[1].detach(); };
  expect_error<UsageError>([&] { gradient_check(cut, {drawn({2}, 1), drawn({2}, 2)}); }, {"input 1", "no gradient reaches the input"});
}

TEST(GradientCheck, RefusesInputsWhoseDifferencesAreRounding) {
  const auto doubled = [](const auto& x) { return x[0] * 2; };
  expect_error<UsageError>([&] { gradient_check(doubled, {randn({2}, 1)}); }, {"needs floating inputs in f64", "f32 [2]"});
  const auto rounded = [](const auto& x) { return cast(x[0], DType::f32); };
  expect_error<UsageError>([&] { gradient_check(rounded, {drawn({2}, 1)}); }, {"needs a result in f64", "f32 [2]", "keep the dtype"});
  expect_error<UsageError>([&] { gradient_check([](const auto&) { return Var(full({2}, 1)); }, {drawn({2}, 1)}); },
                           {"depends on an input", "constant"});
}

TEST(NoGrad, RecordsNothingForLeavesThatWereThere) {
  const Var x = Var::input(drawn({2}, 1));
  {
    const NoGrad no_grad;
    EXPECT_EQ((x * x).node(), nullptr);
    const Var own = Var::input(drawn({2}, 2));
    const Var y = sum(own * x);
    EXPECT_EQ(gradients(y, full({}, 1, DType::f64), {own})[0].to_vector(), x.value().to_vector());
    {
      const NoGrad inner;
      EXPECT_EQ((own * 2).node(), nullptr);
    }
    EXPECT_NE((own * 2).node(), nullptr);
  }
  EXPECT_NE((x * x).node(), nullptr);
}

TEST(Detach, StopsTheGradientAndKeepsTheValue) {
  const Var x = Var::input(tensor({2, 5}, DType::f64));
  const Var y = x * x.detach();
  EXPECT_EQ(x.detach().node(), nullptr);
  EXPECT_EQ(gradients(y, full({2}, 1, DType::f64), {x})[0].to_vector(), (std::vector<double>{2, 5}));
}

/// A generator and a discriminator that read one trunk: the first backward keeps what the second needs, or the second is refused.
TEST(Backward, RunsTwiceOverASharedTrunkWhenTheFirstKeepsIt) {
  const Var x = Var::input(tensor({1, 2}, DType::f64));
  const auto losses = [&] {
    const Var trunk = x * x;
    return std::pair(sum(trunk * 3), sum(trunk * trunk));
  };
  const Tensor one = full({}, 1, DType::f64);
  const auto [first, second] = losses();
  EXPECT_EQ(gradients(first, one, {x}, Backward::Saved::kept)[0].to_vector(), (std::vector<double>{6, 12}));
  EXPECT_EQ(gradients(second, one, {x})[0].to_vector(), (std::vector<double>{4, 32}));
  const auto [third, fourth] = losses();
  gradients(third, one, {x});
  expect_error<UsageError>([&, y = fourth] { gradients(y, one, {x}); }, {"Saved::kept"});
}

TEST(Backward, RefusesAGradientOnAnotherDeviceFromAnOpOutsideTheLibrary) {
  const Var x = Var::input(tensor({1, 2}, DType::f64));
  const auto elsewhere = [](const Node&, const Tensor&, Needs) { return Gradients{full({2}, 1, DType::f64, make_device("cpu:1"))}; };
  const Var y = record("outside", x.value(), {x}, {}, {}, elsewhere);
  expect_error<UsageError>([&] { gradients(y, full({2}, 1, DType::f64), {x}); }, {"outside", "cpu:0", "cpu:1"});
}

TEST(Backward, RefusesAGradientOfAnotherShapeFromAnOpOutsideTheLibrary) {
  const Var x = Var::input(tensor({1, 2}, DType::f64));
  const Var y =
      record("outside", x.value(), {x}, {}, {}, [](const Node&, const Tensor&, Needs) { return Gradients{full({3}, 1, DType::f64)}; });
  expect_error<UsageError>([&] { gradients(y, full({2}, 1, DType::f64), {x}); }, {"outside", "[2]", "[3]"});
}

}  // namespace
}  // namespace sluice
