#pragma once
#include <vector>

#include "autograd/var.h"
#include "core/ops/concat.h"

namespace sluice {

/// The parts one after the other along an axis; each part's gradient is a view of its range.
Var concat(const std::vector<Var>& parts, int axis);
/// Views of consecutive ranges of an axis.
std::vector<Var> split(const Var& x, const std::vector<int64_t>& sizes, int axis);

}  // namespace sluice
