#pragma once
#include "autograd/var.h"
#include "core/ops/dropout.h"

namespace sluice {

/// x / (1 - p) where kept, else 0. Nothing is stored: the gradient makes the mask again from the stream.
Var dropout(const Var& x, double p, const RandomStream& stream);
/// residual + dropout(x), fused.
Var dropout_add(const Var& x, const Var& residual, double p, const RandomStream& stream);

}  // namespace sluice
