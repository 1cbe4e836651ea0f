#pragma once
#include "autograd/var.h"
#include "core/ops/select.h"

namespace sluice {

/// a where the condition (u8) is not 0, else b, with broadcasting of all three; each element's gradient goes to the one that it came from.
Var where(const Tensor& condition, const Var& a, const Var& b);
Var where(const Tensor& condition, const Var& a, double b);
Var where(const Tensor& condition, double a, const Var& b);

/// The number where the mask is not 0, with a gradient of zero there, else x.
Var masked_fill(const Var& x, const Tensor& mask, double number);

/// The matrices of the last two axes, with 0 above the diagonal (tril) or below it (triu).
Var tril(const Var& x, int64_t diagonal = 0);
Var triu(const Var& x, int64_t diagonal = 0);

}  // namespace sluice
