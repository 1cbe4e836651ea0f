#pragma once
#include "core/ops/elementwise_rules.h"
#include "core/tensor.h"

namespace sluice {

/// Unary ops, y = f(x) element by element: exp(x), relu(x), ... as elementwise_rules.h lists them.
/// Shape   any -> the same, row-major.
/// Dtypes  f32, f64, bf16 (arithmetic in f32).
/// Errors  UsageError for another dtype.
Tensor unary(Unary rule, const Tensor& x);
/// dx = dy * f'(x), in one pass.
Tensor unary_backward(Unary rule, const Tensor& x, const Tensor& dy);
#define SLUICE_DECLARE(Rule, name) \
  inline Tensor name(const Tensor& x) { return unary(Unary::Rule, x); }
SLUICE_UNARY_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

/// y = a op b element by element, with broadcasting after NumPy's rule.
/// Shape   a and b broadcast to y, row-major; any strides, no operand is copied.
/// Dtypes  f32, f64, bf16 (arithmetic in f32); both the same.
/// Errors  UsageError when shapes do not broadcast, or dtypes or devices differ.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);

/// y = factor * x.
Tensor scale(const Tensor& x, double factor);

/// y = min(max(x, low), high). Errors  UsageError unless low < high.
Tensor clamp(const Tensor& x, double low, double high);
/// dx = dy where low < y < high, else 0.
Tensor clamp_backward(const Tensor& y, const Tensor& dy, double low, double high);

/// factor * x, repeated along the axes that x lacks or has with extent 1. Errors  UsageError when x does not broadcast to the shape.
Tensor broadcast_to(const Tensor& x, const Shape& shape, double factor = 1);

/// target += x in place, for accumulation of gradients. Equal shapes and dtypes; the target must be contiguous.
void add_into(const Tensor& target, const Tensor& x);

/// sum = sum + part for parts of one shape, in the memory of either where nothing else refers to it, else in new memory. An undefined sum
/// becomes the part. Errors  UsageError as for `add`.
void add_part(Tensor& sum, Tensor part);

namespace kernels {
void unary(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& y);
void unary(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& y);
void unary_backward(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& dx);
void unary_backward(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& dx);
/// y may be a: each element is read before it is written.
void binary(Cpu& cpu, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y);
void binary(Cuda& cuda, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y);
void scale(Cpu& cpu, const Tensor& x, double factor, const Tensor& y);
void scale(Cuda& cuda, const Tensor& x, double factor, const Tensor& y);
void clamp(Cpu& cpu, const Tensor& x, double low, double high, const Tensor& y);
void clamp(Cuda& cuda, const Tensor& x, double low, double high, const Tensor& y);
void clamp_backward(Cpu& cpu, const Tensor& y, const Tensor& dy, double low, double high, const Tensor& dx);
void clamp_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, double low, double high, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
