#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/ops/elementwise.h"

namespace sluice {
namespace {

struct Function {
  Unary rule;
  double (*exact)(double);
  double low, high;  ///< where it is tried, besides numbers near 0
  double roundings;  ///< its error in f32, in units of the result's last place
};

/// Steps through a range, and through magnitudes down to the smallest normal numbers.
std::vector<double> tried(const Function& function) {
  std::vector<double> numbers;
  for (int i = 0; i <= 20000; ++i) numbers.push_back(function.low + (function.high - function.low) * i / 20000);
  for (double x = 1e-37; x < function.high; x *= 1.5)
    for (double sign : {1.0, -1.0})
      if (sign * x >= function.low) numbers.push_back(sign * x);
  return numbers;
}

double last_place(double y) { return std::max(std::abs(y), double{std::numeric_limits<float>::min()}) * 0x1p-23; }

TEST(Unary, IsWithinAFewRoundingsOfTheExactFunctionInF32) {
  const double pi = std::acos(-1);
  for (const Function& function : {Function{Unary::Sin, std::sin, -2 * pi, 7000 * pi, 2},
                                   {Unary::Cos, std::cos, -7000 * pi, 2 * pi, 2},
                                   {Unary::Tan, std::tan, -1.5, 1.5, 6},
                                   {Unary::Erf, std::erf, -5, 5, 8},
                                   {Unary::Log1p, std::log1p, -0.999, 1000, 4},
                                   {Unary::Expm1, std::expm1, -30, 80, 6},
                                   {Unary::Rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-3, 1e3, 2}}) {
    const auto numbers = tried(function);
    const Tensor x = tensor_of(numbers, {static_cast<int64_t>(numbers.size())});
    const auto rounded = x.to_vector(), y = unary(function.rule, x).to_vector();
    double worst = 0, at = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double exact = function.exact(rounded[i]), error = std::abs(y[i] - exact) / last_place(exact);
      if (!(error <= worst)) worst = error, at = rounded[i];
    }
    EXPECT_LE(worst, function.roundings) << "rule " << static_cast<int>(function.rule) << " at " << at;
  }
}

TEST(Unary, GivesAnElementTheSameBitsBesideAnyNeighbour) {
  const Tensor alone = tensor_of({1, 1, 1}, {3}), beside = tensor_of({1, 1e5, 1}, {3});
  for (Unary rule : {Unary::Sin, Unary::Cos, Unary::Tan, Unary::Exp, Unary::Expm1, Unary::Log1p, Unary::Erf})
    EXPECT_EQ(unary(rule, alone).to_vector()[0], unary(rule, beside).to_vector()[0]) << static_cast<int>(rule);
}

TEST(Unary, KeepsTheSignOfZeroAndIsExactAtTheEnds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor zero = full({3}, -0.0, dtype), far = full({3}, kInfinity, dtype);
    for (Unary rule : {Unary::Sin, Unary::Tan, Unary::Expm1, Unary::Sign, Unary::Floor, Unary::Ceil, Unary::Round})
      EXPECT_TRUE(std::signbit(unary(rule, zero).to_vector()[0])) << static_cast<int>(rule) << " in " << name_of(dtype);
    for (Unary rule : {Unary::Sin, Unary::Cos, Unary::Tan}) EXPECT_TRUE(std::isnan(unary(rule, far).to_vector()[0]));
    EXPECT_EQ(expm1(far).to_vector()[0], kInfinity);
    EXPECT_EQ(expm1(neg(far)).to_vector()[0], -1);
    EXPECT_EQ(erf(far).to_vector()[0], 1);
    EXPECT_EQ(rsqrt(far).to_vector()[0], 0);
    EXPECT_EQ(scale(zero, 1).to_vector()[0], 0);
    EXPECT_TRUE(std::signbit(scale(zero, 1).to_vector()[0]));
  }
}

}  // namespace
}  // namespace sluice
