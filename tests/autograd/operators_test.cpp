#include "autograd/ops/operators.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "autograd/backward.h"
#include "autograd/ops/concat.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/select.h"

namespace sluice {
namespace {

using Values = std::vector<double>;

Tensor numbers() { return tensor_of({1, 2, -4}, {3}, DType::f64); }

TEST(Operators, ComputeBetweenTensorsAndNumbersOnEitherSide) {
  const Tensor x = numbers();
  EXPECT_EQ((x + x * 2 - 1).to_vector(), (Values{2, 5, -13}));
  EXPECT_EQ((3 - x).to_vector(), (Values{2, 1, 7}));
  EXPECT_EQ((x / 2).to_vector(), (Values{0.5, 1, -2}));
  EXPECT_EQ((8 / x).to_vector(), (Values{8, 4, -2}));
  EXPECT_EQ((2 * x / x).to_vector(), (Values{2, 2, 2}));
  EXPECT_EQ((-x).to_vector(), (Values{-1, -2, 4}));
}

TEST(Operators, CompareTensorsAndNumbers) {
  const Tensor x = numbers();
  EXPECT_EQ((x > 0).to_vector(), (Values{1, 1, 0}));
  EXPECT_EQ((x == 2).to_vector(), (Values{0, 1, 0}));
  EXPECT_EQ((2 == x).to_vector(), (Values{0, 1, 0}));
  EXPECT_EQ((x != x).to_vector(), (Values{0, 0, 0}));
  EXPECT_EQ((1 <= x).to_vector(), (Values{1, 1, 0}));
  EXPECT_EQ((Var(x) >= x).to_vector(), (Values{1, 1, 1}));
  EXPECT_EQ((x == Var(x)).to_vector(), (Values{1, 1, 1}));
}

/// Calls that could mean two functions do not compile.
TEST(Operators, TakeListsInBracesOfTensorsVarsAndBoth) {
  const Tensor x = tensor_of({1, 2}, {2});
  const Var v = Var::parameter(x);
  const Tensor tensors = concat({x, x}, 0), rows = stack({x, x + 1, x}, 0);
  EXPECT_EQ(tensors.to_vector(), (Values{1, 2, 1, 2}));
  EXPECT_EQ(rows.shape(), Shape({3, 2}));
  for (const Var& y : {concat({v, v}, 0), concat({x, v}, 0), stack({v, x}, 0)}) {
    EXPECT_NE(y.node(), nullptr);
    EXPECT_EQ(y.value().to_vector(), (Values{1, 2, 1, 2}));
  }
}

TEST(Operators, MixTensorsAndVars) {
  const Tensor x = numbers();
  const Var w = Var::input(numbers());
  const Var y = sum(x * w + w * x - 2 * w / 4);
  const auto gradient = gradients(y, full({}, 1, DType::f64), {w})[0];
  EXPECT_EQ(gradient.to_vector(), (Values{1.5, 3.5, -8.5}));
}

TEST(Operators, AssignANewTensorAndLeaveTheFormerOne) {
  Tensor x = numbers();
  const Tensor former = x;
  x += 1;
  x *= x;
  x -= former;
  x /= 2;
  EXPECT_EQ(x.to_vector(), (Values{1.5, 3.5, 6.5}));
  EXPECT_EQ(former.to_vector(), (Values{1, 2, -4}));
}

TEST(Operators, AssignANewVarThatStaysRecorded) {
  const Var x = Var::input(numbers());
  Var y = x;
  y *= 3;
  y += x;
  y -= numbers();
  y /= 2;
  EXPECT_EQ(y.value().to_vector(), (Values{1.5, 3, -6}));
  EXPECT_EQ(gradients(y, full({3}, 1, DType::f64), {x})[0].to_vector(), (Values{2, 2, 2}));
}

TEST(Maximum, SharesTheGradientOfEqualElements) {
  const Var a = Var::input(numbers()), b = Var::input(tensor_of({1, 5, -7}, {3}, DType::f64));
  const Tensor dy = full({3}, 1, DType::f64);
  const auto larger = gradients(maximum(a, b), dy, {a, b}), smaller = gradients(minimum(a, b), dy, {a, b});
  EXPECT_EQ(larger[0].to_vector(), (Values{0.5, 0, 1}));
  EXPECT_EQ(larger[1].to_vector(), (Values{0.5, 1, 0}));
  EXPECT_EQ(smaller[0].to_vector(), (Values{0.5, 1, 0}));
  EXPECT_EQ(smaller[1].to_vector(), (Values{0.5, 0, 1}));
}

TEST(Pow, HasTheLimitsOfItsGradientsAtZero) {
  const Var a = Var::input(zeros({3}, DType::f64)), b = Var::input(tensor_of({0, 1, 2}, {3}, DType::f64));
  const Tensor dy = full({3}, 1, DType::f64);
  const auto both = gradients(pow(a, b), dy, {a, b});
  EXPECT_EQ(both[0].to_vector(), (Values{0, 1, 0}));
  EXPECT_EQ(both[1].to_vector(), (Values{0, 0, 0}));
  EXPECT_EQ(gradients(pow(a, 0.0), dy, {a})[0].to_vector(), (Values{0, 0, 0}));
  EXPECT_EQ(gradients(pow(a, 1.0), dy, {a})[0].to_vector(), (Values{1, 1, 1}));
}

TEST(Where, KeepsANanOfTheOtherBranchOutOfTheGradient) {
  const Var x = Var::input(tensor_of({-1, 4}, {2}, DType::f64));
  const Var y = where(x > 0, x, 0) * 3;
  EXPECT_EQ(gradients(y, full({2}, std::numeric_limits<double>::infinity(), DType::f64), {x})[0].to_vector()[0], 0);
}

TEST(Abs, HasNoSlopeAtZero) {
  const Var x = Var::input(zeros({2}, DType::f64));
  EXPECT_EQ(gradients(abs(x), full({2}, 1, DType::f64), {x})[0].to_vector(), (Values{0, 0}));
}

TEST(Var, PrintsItsValueAndIsDescribedInMessages) {
  const Var x = Var::input(tensor_of({1, 2.5}, {2}));
  std::ostringstream out;
  out << x;
  EXPECT_EQ(out.str(), "[1.  2.5]\nf32 [2] on cpu:0");
  EXPECT_EQ(join(x), "f32 [2] on cpu:0");
}

}  // namespace
}  // namespace sluice
