#pragma once
#include <initializer_list>
#include <vector>

#include "autograd/var.h"
#include "core/ops/concat.h"

namespace sluice {

/// The parts one after the other along an axis; each part's gradient is a view of its range.
Var concat(const std::vector<Var>& parts, int axis);
inline Var concat(std::initializer_list<Var> parts, int axis) { return concat(std::vector<Var>(parts), axis); }
/// The parts side by side along a new axis.
Var stack(const std::vector<Var>& parts, int axis);
inline Var stack(std::initializer_list<Var> parts, int axis) { return stack(std::vector<Var>(parts), axis); }
/// Views of consecutive ranges of an axis: of given sizes, of one size, or at most n of equal size.
std::vector<Var> split(const Var& x, const std::vector<int64_t>& sizes, int axis);
std::vector<Var> split(const Var& x, int64_t size, int axis);
std::vector<Var> chunk(const Var& x, int64_t n, int axis);

}  // namespace sluice
