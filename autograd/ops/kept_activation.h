#pragma once
#include "core/ops/elementwise_names.h"
#include "core/tensor.h"

namespace sluice {

/// Of an activation y = rule(x) the tensor that its gradient reads. Of relu it is y, where the slope is that at x and which the op after it
/// keeps, too, so that x can go.
inline const Tensor& kept_of_activation(Unary rule, const Tensor& x, const Tensor& y) { return rule == Unary::Relu ? y : x; }

}  // namespace sluice
