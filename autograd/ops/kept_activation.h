#pragma once
#include "core/ops/elementwise_names.h"

namespace sluice {

/// Whether the gradient of an activation y = rule(x) reads y in place of x: of relu, whose slope at y is that at x. The op after it keeps y,
/// too, so that x can go.
inline bool keeps_output(Unary rule) { return rule == Unary::Relu; }

}  // namespace sluice
