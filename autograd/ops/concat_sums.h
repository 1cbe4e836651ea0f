#pragma once
#include <vector>

#include "autograd/var.h"

namespace sluice {

/// A part of concat_sums(): a, or a + b where b is defined.
struct SummedVar {
  Var a, b = {};
};

/// See core/ops/concat_sums.h: the value and the gradients of additions, a concatenation along the last axis and, with `relu`, a ReLU, to the
/// bit. Each part's gradient is row-major and its addends share it.
Var concat_sums(const std::vector<SummedVar>& parts, bool relu = false);

}  // namespace sluice
