#pragma once
#include "core/ops/comparison.h"
#include "core/ops/elementwise.h"

namespace sluice {

#define SLUICE_ARITHMETIC(X) X(add, +) X(sub, -) X(mul, *) X(div, /)

// The signs of arithmetic and comparisons, between tensors and with a number on either side: what the functions do that they stand for.
// `a += b` is `a = a + b`: a becomes a new tensor, and other handles of the former one keep its elements.
#define SLUICE_DECLARE(name, sign)                                                        \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return name(a, b); }    \
  inline Tensor operator sign(const Tensor& x, double number) { return name(x, number); } \
  inline Tensor operator sign(double number, const Tensor& x) { return name(number, x); }
SLUICE_ARITHMETIC(SLUICE_DECLARE)
SLUICE_COMPARISONS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

#define SLUICE_DECLARE(name, sign)                                                       \
  inline Tensor& operator sign##=(Tensor& a, const Tensor& b) { return a = name(a, b); } \
  inline Tensor& operator sign##=(Tensor& x, double number) { return x = name(x, number); }
SLUICE_ARITHMETIC(SLUICE_DECLARE)
#undef SLUICE_DECLARE

inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace sluice
