#pragma once
#include "autograd/var.h"

namespace sluice {

// The views of Tensor, differentiable; arguments and errors are those of its members. Gradients are views too, but for those of select, zero
// elsewhere, and of expand, which are sums.

/// One index of an axis, without that axis.
Var select(const Var& x, int axis, int64_t index);
Var permute(const Var& x, const std::vector<int>& axes);
Var squeeze(const Var& x, int axis);
Var squeeze(const Var& x);
Var unsqueeze(const Var& x, int axis);
/// A copy where elements have to move, as for reshape.
Var flatten(const Var& x, int first = 0, int last = -1);
Var expand(const Var& x, const Shape& shape);

}  // namespace sluice
