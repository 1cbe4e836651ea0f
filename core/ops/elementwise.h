#pragma once
#include <limits>

#include "core/ops/elementwise_names.h"
#include "core/tensor.h"

namespace sluice {

/// Unary ops, y = f(x) element by element: exp(x), relu(x), ... as elementwise_names.h lists them.
/// Shape   any -> the same, row-major.
/// Dtypes  f32, f64, bf16 (arithmetic in f32).
/// Errors  UsageError for another dtype.
Tensor unary(Unary rule, const Tensor& x);
/// dx = dy * f'(x), in one pass. With a `sum`, like x, it is the rounded dx + sum: the bits of an addition afterwards, in the same pass.
Tensor unary_backward(Unary rule, const Tensor& x, const Tensor& dy, const Tensor& sum = {});
#define SLUICE_DECLARE(Rule, name) \
  inline Tensor name(const Tensor& x) { return unary(Unary::Rule, x); }
SLUICE_UNARY_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

/// y = a op b element by element, with broadcasting after NumPy's rule: add, sub, mul, div, pow (a to the power of b), maximum, minimum
/// (both keep NaN), prelu (a where a > 0, else b a: b are the slopes).
/// Shape   a and b broadcast to y, row-major; any strides, no operand is copied.
/// Dtypes  f32, f64, bf16 (arithmetic in f32); add, sub and mul also i32, i64, u8, which wrap around. Both the same.
/// Errors  UsageError when shapes do not broadcast, or dtypes or devices differ.
Tensor binary(Binary rule, const Tensor& a, const Tensor& b);
#define SLUICE_DECLARE(Rule, name) \
  inline Tensor name(const Tensor& a, const Tensor& b) { return binary(Binary::Rule, a, b); }
SLUICE_BINARY_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

/// The same with a number, which beside floating elements needs no tensor and is rounded to the dtype of the arithmetic (f32
/// for bf16).
/// Errors  UsageError when x is of integers and the number is not one of them.
Tensor add(const Tensor& x, double number);
inline Tensor add(double number, const Tensor& x) { return add(x, number); }
Tensor sub(const Tensor& x, double number);
Tensor sub(double number, const Tensor& x);
Tensor mul(const Tensor& x, double number);
inline Tensor mul(double number, const Tensor& x) { return mul(x, number); }
Tensor div(const Tensor& x, double number);
Tensor div(double number, const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
/// dx = dy * exponent * x^(exponent - 1), 0 for an exponent of 0.
Tensor pow_backward(const Tensor& x, double exponent, const Tensor& dy);

/// y = factor * x + offset.
Tensor affine(const Tensor& x, double factor, double offset);
/// y = factor * x.
Tensor scale(const Tensor& x, double factor);

/// y = min(max(x, low), high); an infinite end leaves that side open. Errors  UsageError unless low < high.
Tensor clamp(const Tensor& x, double low, double high);
inline Tensor clamp_min(const Tensor& x, double low) { return clamp(x, low, std::numeric_limits<double>::infinity()); }
inline Tensor clamp_max(const Tensor& x, double high) { return clamp(x, -std::numeric_limits<double>::infinity(), high); }
/// dx = dy where low < y < high, else 0.
Tensor clamp_backward(const Tensor& y, const Tensor& dy, double low, double high);

/// y = x where x > 0, else slope * x. Source  Maas, Hannun, Ng 2013, "Rectifier nonlinearities improve neural network acoustic models".
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// y = x where x > 0, else alpha * (exp(x) - 1). Source  Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289.
Tensor elu(const Tensor& x, double alpha = 1);
/// dx = dy * f'(x), at 0 from below; in one pass, with a sum as unary_backward.
Tensor leaky_relu_backward(const Tensor& x, double slope, const Tensor& dy, const Tensor& sum = {});
Tensor elu_backward(const Tensor& x, double alpha, const Tensor& dy, const Tensor& sum = {});

/// factor * x, repeated along the axes that x lacks or has with extent 1. Errors  UsageError when x does not broadcast to the shape.
Tensor broadcast_to(const Tensor& x, const Shape& shape, double factor = 1);

/// target += x in place, for accumulation of gradients. Equal shapes and dtypes; the target must be contiguous.
/// Errors  UsageError, also when x is another view of the target's elements.
void add_into(const Tensor& target, const Tensor& x);

/// sum = sum + part for parts of one shape, in the memory of either where nothing else refers to it, else in new memory. An undefined sum
/// becomes the part. Errors  UsageError as for `add`.
void add_part(Tensor& sum, Tensor part);

namespace kernels {
void unary(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& y);
void unary(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& y);
/// sum may be undefined.
void unary_backward(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& sum, const Tensor& dx);
void unary_backward(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& sum, const Tensor& dx);
/// y may be a: each element is read before it is written.
void binary(Cpu& cpu, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y);
void binary(Cuda& cuda, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y);
void numbers(Cpu& cpu, WithNumbers rule, const Tensor& x, double first, double second, const Tensor& y);
void numbers(Cuda& cuda, WithNumbers rule, const Tensor& x, double first, double second, const Tensor& y);
/// For the rules of with_slope(). sum may be undefined.
void numbers_backward(Cpu& cpu, WithNumbers rule, const Tensor& x, double number, const Tensor& dy, const Tensor& sum, const Tensor& dx);
void numbers_backward(Cuda& cuda, WithNumbers rule, const Tensor& x, double number, const Tensor& dy, const Tensor& sum, const Tensor& dx);
void clamp(Cpu& cpu, const Tensor& x, double low, double high, const Tensor& y);
void clamp(Cuda& cuda, const Tensor& x, double low, double high, const Tensor& y);
void clamp_backward(Cpu& cpu, const Tensor& y, const Tensor& dy, double low, double high, const Tensor& dx);
void clamp_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, double low, double high, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
