#pragma once
#include <numbers>

#include "core/dtype.h"

namespace sluice {

/// The only list of unary ops. A word here and a rule below make the function, its kernels, its gradient, its tests and its bench row.
// clang-format off
#define SLUICE_UNARY_OPS(X)                                                                                              \
  X(Neg, neg) X(Exp, exp) X(Log, log) X(Sqrt, sqrt) X(Square, square) X(Reciprocal, reciprocal) X(Tanh, tanh)            \
  X(Sigmoid, sigmoid) X(Relu, relu) X(Silu, silu) X(Gelu, gelu) X(GeluTanh, gelu_tanh) X(Softplus, softplus)
// clang-format on

#define SLUICE_WORD(Rule, name) Rule,
enum class Unary { SLUICE_UNARY_OPS(SLUICE_WORD) };
#undef SLUICE_WORD

enum class Binary { Add, Sub, Mul, Div };

/// The formulas: value f(x) and slope f'(x), for any V with arithmetic and exp, log, ... found by argument-dependent lookup.
namespace rules {
// clang-format off

struct Neg {
  template <class V> SLUICE_HD static V value(V x) { return -x; }
  template <class V> SLUICE_HD static V slope(V) { return V(-1); }
};
struct Exp {
  template <class V> SLUICE_HD static V value(V x) { return exp(x); }
  template <class V> SLUICE_HD static V slope(V x) { return exp(x); }
};
struct Log {
  template <class V> SLUICE_HD static V value(V x) { return log(x); }
  template <class V> SLUICE_HD static V slope(V x) { return V(1) / x; }
};
struct Sqrt {
  template <class V> SLUICE_HD static V value(V x) { return sqrt(x); }
  template <class V> SLUICE_HD static V slope(V x) { return V(0.5) / sqrt(x); }
};
struct Square {
  template <class V> SLUICE_HD static V value(V x) { return x * x; }
  template <class V> SLUICE_HD static V slope(V x) { return V(2) * x; }
};
struct Reciprocal {
  template <class V> SLUICE_HD static V value(V x) { return V(1) / x; }
  template <class V> SLUICE_HD static V slope(V x) { return V(-1) / (x * x); }
};
struct Tanh {
  template <class V> SLUICE_HD static V value(V x) { return tanh(x); }
  template <class V> SLUICE_HD static V slope(V x) {
    const V y = tanh(x);
    return V(1) - y * y;
  }
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
  template <class V> SLUICE_HD static V slope(V x) { return where_positive(x, V(1), V(0)); }
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

/// min(max(x, low), high) with ends that T holds, so that the result tells what was cut off. Keeps NaN.
template <class T>
struct Clamp {
  Clamp(double lowest, double highest) : low(held(lowest)), high(held(highest)) {}
  template <class V> SLUICE_HD V value(V x) const { return where_positive(x - V(high), V(high), where_positive(V(low) - x, V(low), x)); }
  template <class V> SLUICE_HD V gradient(V y, V dy) const {
    return where_positive(y - V(low), where_positive(V(high) - y, dy, V(0)), V(0));
  }
  static compute_t<T> held(double x) { return static_cast<compute_t<T>>(static_cast<T>(static_cast<compute_t<T>>(x))); }
  compute_t<T> low, high;
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

template <class F>
void on_binary(Binary rule, F&& f) {
  switch (rule) {
    case Binary::Add:
      return f.template operator()<rules::Add>();
    case Binary::Sub:
      return f.template operator()<rules::Sub>();
    case Binary::Mul:
      return f.template operator()<rules::Mul>();
    case Binary::Div:
      return f.template operator()<rules::Div>();
  }
}

}  // namespace sluice
