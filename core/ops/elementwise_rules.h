#pragma once
#include <cmath>
#include <numbers>

#include "core/dtype.h"
#include "core/error.h"
#include "core/ops/elementwise_names.h"

namespace sluice {

/// The formulas: value f(x) and slope f'(x), for any V with arithmetic and exp, log, ... found by argument-dependent lookup.
/// kConstantSlope: it is the same for every x.
namespace rules {
// clang-format off

/// What a slope of 0 is, so that the gradient tells of a NaN as the value does: 0, and NaN of NaN.
template <class V> SLUICE_HD V zero_of(V x) { return where_positive(x, V(0), where_positive(-x, V(0), x)); }

struct Neg {
  static constexpr bool kConstantSlope = true;
  template <class V> SLUICE_HD static V value(V x) { return -x; }
  template <class V> SLUICE_HD static V slope(V) { return V(-1); }
};
struct Abs {
  template <class V> SLUICE_HD static V value(V x) { return abs(x); }
  template <class V> SLUICE_HD static V slope(V x) { return where_positive(x, V(1), where_positive(-x, V(-1), x)); }  // x is 0 or NaN
};
struct Sign {
  static constexpr bool kConstantSlope = true;
  template <class V> SLUICE_HD static V value(V x) { return where_positive(x, V(1), where_positive(-x, V(-1), x)); }  // keeps NaN
  template <class V> SLUICE_HD static V slope(V) { return V(0); }
};
struct Floor {
  static constexpr bool kConstantSlope = true;
  template <class V> SLUICE_HD static V value(V x) { return floor(x); }
  template <class V> SLUICE_HD static V slope(V) { return V(0); }
};
struct Ceil {
  static constexpr bool kConstantSlope = true;
  template <class V> SLUICE_HD static V value(V x) { return ceil(x); }
  template <class V> SLUICE_HD static V slope(V) { return V(0); }
};
/// To the nearest whole number, halves to the even one.
struct Round {
  static constexpr bool kConstantSlope = true;
  template <class V> SLUICE_HD static V value(V x) { return rint(x); }
  template <class V> SLUICE_HD static V slope(V) { return V(0); }
};
struct Exp {
  template <class V> SLUICE_HD static V value(V x) { return exp(x); }
  template <class V> SLUICE_HD static V slope(V x) { return exp(x); }
};
/// exp(x) - 1, exact near 0.
struct Expm1 {
  template <class V> SLUICE_HD static V value(V x) { return expm1(x); }
  template <class V> SLUICE_HD static V slope(V x) { return exp(x); }
};
struct Log {
  template <class V> SLUICE_HD static V value(V x) { return log(x); }
  template <class V> SLUICE_HD static V slope(V x) { return V(1) / x; }
};
/// log(1 + x), exact near 0.
struct Log1p {
  template <class V> SLUICE_HD static V value(V x) { return log1p(x); }
  template <class V> SLUICE_HD static V slope(V x) { return V(1) / (V(1) + x); }
};
struct Sqrt {
  template <class V> SLUICE_HD static V value(V x) { return sqrt(x); }
  template <class V> SLUICE_HD static V slope(V x) { return V(0.5) / sqrt(x); }
};
struct Rsqrt {
  template <class V> SLUICE_HD static V value(V x) { return V(1) / sqrt(x); }
  template <class V> SLUICE_HD static V slope(V x) { return V(-0.5) / (x * sqrt(x)); }
};
struct Square {
  template <class V> SLUICE_HD static V value(V x) { return x * x; }
  template <class V> SLUICE_HD static V slope(V x) { return V(2) * x; }
};
struct Reciprocal {
  template <class V> SLUICE_HD static V value(V x) { return V(1) / x; }
  template <class V> SLUICE_HD static V slope(V x) { return V(-1) / (x * x); }
};
struct Sin {
  template <class V> SLUICE_HD static V value(V x) { return sin(x); }
  template <class V> SLUICE_HD static V slope(V x) { return cos(x); }
};
struct Cos {
  template <class V> SLUICE_HD static V value(V x) { return cos(x); }
  template <class V> SLUICE_HD static V slope(V x) { return -sin(x); }
};
struct Tan {
  template <class V> SLUICE_HD static V value(V x) { return sin(x) / cos(x); }
  template <class V> SLUICE_HD static V slope(V x) {
    const V c = cos(x);
    return V(1) / (c * c);
  }
};
struct Tanh {
  template <class V> SLUICE_HD static V value(V x) { return tanh(x); }
  template <class V> SLUICE_HD static V slope(V x) {
    const V y = tanh(x);
    return V(1) - y * y;
  }
};
struct Erf {
  template <class V> SLUICE_HD static V value(V x) { return erf(x); }
  template <class V> SLUICE_HD static V slope(V x) { return V(2 * std::numbers::inv_sqrtpi) * exp(-(x * x)); }
};
struct Sigmoid {
  template <class V> SLUICE_HD static V value(V x) { return V(1) / (V(1) + exp(-x)); }
  template <class V> SLUICE_HD static V slope(V x) {
    const V y = value(x);
    return y * (V(1) - y);
  }
};
struct Relu {
  template <class V> SLUICE_HD static V value(V x) { return where_positive(-x, V(0), x); }  // keeps NaN
  template <class V> SLUICE_HD static V slope(V x) { return where_positive(x, V(1), where_positive(-x, V(0), x)); }  // x is 0 or NaN
};
/// x sigmoid(x). Source  Elfwing, Uchibe, Doya 2017, arXiv:1702.03118.
struct Silu {
  template <class V> SLUICE_HD static V value(V x) { return x * Sigmoid::value(x); }
  template <class V> SLUICE_HD static V slope(V x) {
    const V s = Sigmoid::value(x);
    return s * (V(1) + x * (V(1) - s));
  }
};
/// x Phi(x), Phi the normal distribution. Source  Hendrycks & Gimpel 2016, arXiv:1606.08415.
struct Gelu {
  template <class V> SLUICE_HD static V distribution(V x) { return V(0.5) * (V(1) + erf(x * V(std::numbers::sqrt2 / 2))); }
  template <class V> SLUICE_HD static V value(V x) { return x * distribution(x); }
  template <class V> SLUICE_HD static V slope(V x) {
    const V density = V(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(V(-0.5) * x * x);
    return distribution(x) + x * density;
  }
};
/// The tanh form of the same paper: x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2u).
struct GeluTanh {
  static constexpr double kLinear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715 * kLinear;
  template <class V> SLUICE_HD static V gate(V x) { return Sigmoid::value(x * (V(kLinear) + V(kCubic) * (x * x))); }
  template <class V> SLUICE_HD static V value(V x) { return x * gate(x); }
  template <class V> SLUICE_HD static V slope(V x) {
    const V s = gate(x);
    return s + x * s * (V(1) - s) * (V(kLinear) + V(3 * kCubic) * (x * x));
  }
};
/// log(1 + exp(x)), in a form that neither overflows nor cancels.
struct Softplus {
  template <class V> SLUICE_HD static V value(V x) { return where_positive(x, x, V(0)) + log1p(exp(-abs(x))); }
  template <class V> SLUICE_HD static V slope(V x) { return Sigmoid::value(x); }
};
/// x tanh(softplus(x)) = x n / (n + r), and with u = exp(-|x|), which never overflows, n = 1 + 2u and r = 2u^2 for x > 0, else
/// n = u^2 + 2u and r = 2. Source  Misra 2019, arXiv:1908.08681.
struct Mish {
  template <class V> SLUICE_HD static V value(V x) {
    const V u = exp(-abs(x)), n = where_positive(x, V(1) + V(2) * u, u * (u + V(2)));
    return x * (n / (n + where_positive(x, V(2) * u * u, V(2))));
  }
  template <class V> SLUICE_HD static V slope(V x) {
    const V u = exp(-abs(x)), n = where_positive(x, V(1) + V(2) * u, u * (u + V(2))), r = where_positive(x, V(2) * u * u, V(2));
    const V y = n / (n + r), sigmoid = where_positive(x, V(1), u) / (V(1) + u);
    return y + x * (V(1) + y) * (r / (n + r)) * sigmoid;
  }
};
/// x min(max(x + 3, 0), 6) / 6. Source  Howard et al. 2019, arXiv:1905.02244.
struct Hardswish {
  template <class V> SLUICE_HD static V of_parts(V x, V low, V middle, V high) {  // NaN in the middle
    return where_positive(V(-3) - x, low, where_positive(x - V(3), high, middle));
  }
  template <class V> SLUICE_HD static V value(V x) { return of_parts(x, V(0), x * (x + V(3)) * V(1.0 / 6), x); }
  template <class V> SLUICE_HD static V slope(V x) { return of_parts(x, V(0), x * V(1.0 / 3) + V(0.5), V(1)); }
};
/// min(max(x + 3, 0), 6) / 6.
struct Hardsigmoid {
  template <class V> SLUICE_HD static V value(V x) { return Hardswish::of_parts(x, V(0), (x + V(3)) * V(1.0 / 6), V(1)); }
  template <class V> SLUICE_HD static V slope(V x) { return where_positive(V(3) - abs(x), V(1.0 / 6), zero_of(x)); }
};

/// min(max(x, low), high) with ends that T holds, so that the result tells what was cut off. Keeps NaN.
template <class T>
struct Clamp {
  Clamp(double lowest, double highest) : low(held(lowest)), high(held(highest)) {}
  template <class V> SLUICE_HD V value(V x) const { return where_positive(x - V(high), V(high), where_positive(V(low) - x, V(low), x)); }
  template <class V> SLUICE_HD V gradient(V y, V dy) const {
    return where_positive(y - V(low), where_positive(V(high) - y, dy, V(0)), zero_of(y));
  }
  static compute_t<T> held(double x) { return static_cast<compute_t<T>>(static_cast<T>(x)); }
  compute_t<T> low, high;
};

// With numbers of the arithmetic's type A.
template <class A>
struct Affine {
  template <class V> SLUICE_HD V value(V x) const { return x * V(factor) + V(offset); }
  A factor, offset;
};
template <class A>
struct Power {
  template <class V> SLUICE_HD V value(V x) const { return V(factor) * pow(x, exponent); }
  A exponent, factor;
};
template <class A>
struct DivideBy {
  template <class V> SLUICE_HD V value(V x) const { return x / V(divisor); }
  A divisor;
};
template <class A>
struct DivideInto {
  template <class V> SLUICE_HD V value(V x) const { return V(dividend) / x; }
  A dividend;
};
template <class A>
struct LeakyRelu {
  template <class V> SLUICE_HD V value(V x) const { return where_positive(x, x, V(below) * x); }
  template <class V> SLUICE_HD V slope(V x) const { return where_positive(x, V(1), V(below) + zero_of(x)); }
  A below;
};
template <class A>
struct Elu {
  template <class V> SLUICE_HD V value(V x) const { return where_positive(x, x, V(alpha) * expm1(x)); }
  template <class V> SLUICE_HD V slope(V x) const { return where_positive(x, V(1), V(alpha) * exp(x)); }
  A alpha;
};

struct Add {
  template <class V> SLUICE_HD static V value(V a, V b) { return a + b; }
};
struct Sub {
  template <class V> SLUICE_HD static V value(V a, V b) { return a - b; }
};
struct Mul {
  template <class V> SLUICE_HD static V value(V a, V b) { return a * b; }
};
struct Div {
  template <class V> SLUICE_HD static V value(V a, V b) { return a / b; }
};
struct Pow {
  template <class V> SLUICE_HD static V value(V a, V b) { return std::pow(a, b); }
};
struct Maximum {
  template <class V> SLUICE_HD static V value(V a, V b) { return a > b || a != a ? a : b; }  // keeps NaN
};
struct Minimum {
  template <class V> SLUICE_HD static V value(V a, V b) { return a < b || a != a ? a : b; }
};
/// b a^(b - 1), 0 for b = 0.
struct PowByBase {
  template <class V> SLUICE_HD static V value(V a, V b) { return b == 0 ? V(0) : b * std::pow(a, b - 1); }
};
/// a^b log(a), its limit 0 for a = 0 <= b.
struct PowByExponent {
  template <class V> SLUICE_HD static V value(V a, V b) { return a == 0 && b >= 0 ? V(0) : std::pow(a, b) * std::log(a); }
};
/// What of the gradient of the larger one is a's: all, half between equals, or nothing.
struct ShareOfLarger {
  template <class V> SLUICE_HD static V value(V a, V b) { return a > b ? V(1) : a == b ? V(0.5) : a < b ? V(0) : a + b; }  // NaN
};
struct Prelu {
  template <class V> SLUICE_HD static V value(V x, V below) { return x > 0 ? x : below * x; }
};
struct PreluByInput {
  template <class V> SLUICE_HD static V value(V x, V below) { return x > 0 ? V(1) : x <= 0 ? below : x; }
};

// clang-format on
}  // namespace rules

/// Calls f.template operator()<rules::Rule>() for the rule of a word of the list.
template <class F>
void on_unary(Unary rule, F&& f) {
  switch (rule) {
#define SLUICE_CASE(Rule, name) \
  case Unary::Rule:             \
    return f.template operator()<rules::Rule>();
    SLUICE_UNARY_OPS(SLUICE_CASE)
#undef SLUICE_CASE
  }
}

/// As on_unary, for the rules of SLUICE_BIAS_ACTIVATIONS, of which bias_activation has kernels. Errors  UsageError for another.
template <class F>
void on_bias_activation(Unary rule, F&& f) {
  switch (rule) {
#define SLUICE_CASE(Rule, name) \
  case Unary::Rule:             \
    return f.template operator()<rules::Rule>();
    SLUICE_BIAS_ACTIVATIONS(SLUICE_CASE)
#undef SLUICE_CASE
    default:
      throw UsageError("bias_activation: needs gelu, gelu_tanh, relu or silu, got another rule; add the bias and call the unary op");
  }
}

template <class F>
void on_binary(Binary rule, F&& f) {
  switch (rule) {
#define SLUICE_CASE(Rule, name) \
  case Binary::Rule:            \
    return f.template operator()<rules::Rule>();
    SLUICE_BINARY_OPS(SLUICE_CASE) SLUICE_BINARY_SLOPES(SLUICE_CASE)
#undef SLUICE_CASE
  }
}

/// As on_binary, for the rules that is_for_integers names.
template <class F>
void on_integer_binary(Binary rule, F&& f) {
  if (rule == Binary::Add) return f.template operator()<rules::Add>();
  if (rule == Binary::Sub) return f.template operator()<rules::Sub>();
  if (rule == Binary::Mul) return f.template operator()<rules::Mul>();
}

/// Calls f(rule) with the numbers in their places, in the type in which arithmetic on T is done.
template <class T, class F>
void with_numbers(WithNumbers rule, double first, double second, F&& f) {
  using A = compute_t<T>;
  const A a = static_cast<A>(first), b = static_cast<A>(second);
  switch (rule) {
    case WithNumbers::Affine:
      return f(rules::Affine<A>{a, b});
    case WithNumbers::Power:
      return f(rules::Power<A>{a, b});
    case WithNumbers::DivideBy:
      return f(rules::DivideBy<A>{a});
    case WithNumbers::DivideInto:
      return f(rules::DivideInto<A>{a});
    case WithNumbers::LeakyRelu:
      return f(rules::LeakyRelu<A>{a});
    case WithNumbers::Elu:
      return f(rules::Elu<A>{a});
  }
}

/// As with_numbers, for the rules that have a slope f'(x).
template <class T, class F>
void with_slope(WithNumbers rule, double number, F&& f) {
  const auto a = static_cast<compute_t<T>>(number);
  if (rule == WithNumbers::LeakyRelu) return f(rules::LeakyRelu<compute_t<T>>{a});
  require<Error>(rule == WithNumbers::Elu, "elementwise: this rule has no slope; give it one in elementwise_rules.h");
  f(rules::Elu<compute_t<T>>{a});
}

}  // namespace sluice
