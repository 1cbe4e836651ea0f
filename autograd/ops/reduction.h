#pragma once
#include "autograd/var.h"
#include "core/ops/reduction.h"

namespace sluice {

/// Over a list of axes (all when empty), which are kept with extent 1 when `keep` is set.
Var sum(const Var& x, std::vector<int> axes = {}, bool keep = false);
/// The gradient is right where factors are 0, also of its own: see prod_backward in core/ops/reduction.h.
Var prod(const Var& x, std::vector<int> axes = {}, bool keep = false);
Var mean(const Var& x, std::vector<int> axes = {}, bool keep = false);
/// Equal maxima share the gradient evenly.
Var max(const Var& x, std::vector<int> axes = {}, bool keep = false);
/// As max.
Var min(const Var& x, std::vector<int> axes = {}, bool keep = false);
/// See core/ops/reduction.h. The gradient of its root, sqrt(variance(x)), is infinite where all elements are equal.
Var variance(const Var& x, std::vector<int> axes = {}, bool keep = false, double correction = 1);

}  // namespace sluice
