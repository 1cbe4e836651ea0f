#pragma once

namespace sluice {

/// The only list of unary ops. A word here and a rule in elementwise_rules.h make the function, its kernels, its gradient, its tests and its
/// bench row.
// clang-format off
#define SLUICE_UNARY_OPS(X)                                                                                              \
  X(Neg, neg) X(Abs, abs) X(Sign, sign) X(Floor, floor) X(Ceil, ceil) X(Round, round) X(Exp, exp) X(Expm1, expm1)        \
  X(Log, log) X(Log1p, log1p) X(Sqrt, sqrt) X(Rsqrt, rsqrt) X(Square, square) X(Reciprocal, reciprocal) X(Sin, sin)      \
  X(Cos, cos) X(Tan, tan) X(Tanh, tanh) X(Erf, erf)                                                                      \
  X(Sigmoid, sigmoid) X(Relu, relu) X(Silu, silu) X(Gelu, gelu) X(GeluTanh, gelu_tanh) X(Softplus, softplus) \
  X(Mish, mish) X(Hardswish, hardswish) X(Hardsigmoid, hardsigmoid)

/// The binary ops, and the slopes that the gradients of some of them are multiplied by.
#define SLUICE_BINARY_OPS(X)                                                                                             \
  X(Add, add) X(Sub, sub) X(Mul, mul) X(Div, div) X(Pow, pow) X(Maximum, maximum) X(Minimum, minimum)      \
  X(Prelu, prelu)
#define SLUICE_BINARY_SLOPES(X)                                                                                          \
  X(PowByBase, pow_by_base) X(PowByExponent, pow_by_exponent) X(ShareOfLarger, share_of_larger) X(PreluByInput, prelu_by_input)
// clang-format on

#define SLUICE_WORD(Rule, name) Rule,
enum class Unary { SLUICE_UNARY_OPS(SLUICE_WORD) };
enum class Binary { SLUICE_BINARY_OPS(SLUICE_WORD) SLUICE_BINARY_SLOPES(SLUICE_WORD) };
#undef SLUICE_WORD

/// Ops of a tensor and one or two numbers, which are rounded to the dtype of the arithmetic, not to that of the elements.
enum class WithNumbers { Affine, Power, DivideBy, DivideInto, LeakyRelu, Elu };

/// Those of them that bias_activation has kernels for, and what it is called with each.
#define SLUICE_BIAS_ACTIVATIONS(X) X(Gelu, bias_gelu) X(GeluTanh, bias_gelu_tanh) X(Relu, bias_relu) X(Silu, bias_silu)

/// The rules that whole numbers have.
inline bool is_for_integers(Binary rule) { return rule == Binary::Add || rule == Binary::Sub || rule == Binary::Mul; }

}  // namespace sluice
