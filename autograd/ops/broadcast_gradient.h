#pragma once
#include "autograd/var.h"
#include "core/ops/copy.h"
#include "core/ops/reduction.h"

namespace sluice {

/// The gradient of an operand that was broadcast from `shape`; a parameter's is summed in its gradient's dtype.
inline Tensor summed(const Node& node, size_t input, const Tensor& gradient, const Shape& shape) {
  return sum_to(cast(gradient, node.inputs[input]->gradient_dtype()), shape);
}

/// Of two operands that broadcast.
using Shapes = std::pair<Shape, Shape>;
inline Shapes shapes_of(const Var& a, const Var& b) { return {a.shape(), b.shape()}; }

}  // namespace sluice
