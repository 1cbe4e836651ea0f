#pragma once
#include "autograd/var.h"
#include "core/ops/gather.h"

namespace sluice {

// The ops of core/ops/gather.h, differentiable in all but the index, which they keep.

/// dx is dy added where the indices point.
Var gather(const Var& x, int axis, const Tensor& index);
Var index_select(const Var& x, int axis, const Tensor& index);
/// dx is dy; the source's gradient is dy gathered.
Var scatter_add(const Var& x, int axis, const Tensor& index, const Var& source);
Var index_add(const Var& x, int axis, const Tensor& index, const Var& source);

}  // namespace sluice
