#pragma once
#include "autograd/var.h"

namespace sluice {

/// The same elements in another shape; a view when x is contiguous, else a copy.
Var reshape(const Var& x, const Shape& shape);
/// Two axes exchanged, as a view.
Var transpose(const Var& x, int a, int b);
/// A view of every step-th of [begin, end) along an axis, as Tensor::slice; the gradient is zero elsewhere.
Var slice(const Var& x, int axis, int64_t begin, int64_t end = kEnd, int64_t step = 1);

}  // namespace sluice
