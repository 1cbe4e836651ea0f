#pragma once
#include "autograd/var.h"
#include "core/ops/sort.h"

namespace sluice {

/// Values, differentiable, and their indices along the axis that was sorted.
struct SortedVar {
  Var values;
  Tensor indices;
};

/// dx is dy at the places that the values came from, and zero elsewhere.
SortedVar sort(const Var& x, int axis = -1, bool descending = false);
SortedVar topk(const Var& x, int64_t k, int axis = -1, bool largest = true);

}  // namespace sluice
