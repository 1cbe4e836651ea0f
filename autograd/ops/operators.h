#pragma once
#include "autograd/ops/elementwise.h"
#include "core/ops/operators.h"

namespace sluice {

// The signs of arithmetic between Vars, with tensors (constants) and with a number on either side. `a += b` is `a = a + b`: a becomes the
// new value, and what was recorded from the former one stays.
#define SLUICE_DECLARE(name, sign)                                                  \
  inline Var operator sign(const Var& a, const Var& b) { return name(a, b); }       \
  inline Var operator sign(const Var& x, double number) { return name(x, number); } \
  inline Var operator sign(double number, const Var& x) { return name(number, x); } \
  inline Var& operator sign##=(Var& a, const Var& b) { return a = name(a, b); }     \
  inline Var& operator sign##=(Var& x, double number) { return x = name(x, number); }
SLUICE_ARITHMETIC(SLUICE_DECLARE)
#undef SLUICE_DECLARE

inline Var operator-(const Var& x) { return neg(x); }

// Comparisons have no gradient: they give tensors.
#define SLUICE_DECLARE(name, sign)                                                               \
  inline Tensor operator sign(const Var& a, const Var& b) { return name(a.value(), b.value()); } \
  inline Tensor operator sign(const Var& x, double number) { return name(x.value(), number); }   \
  inline Tensor operator sign(double number, const Var& x) { return name(number, x.value()); }
SLUICE_COMPARISONS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

}  // namespace sluice
