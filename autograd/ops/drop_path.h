#pragma once
#include "autograd/var.h"
#include "core/ops/drop_path.h"

namespace sluice {

/// x / keep for the samples that are kept, else 0. Nothing is stored: the gradient makes the mask again from the stream.
Var drop_path(const Var& x, double keep, const RandomStream& stream);
/// residual + drop_path(x), fused.
Var drop_path_add(const Var& x, const Var& residual, double keep, const RandomStream& stream);

}  // namespace sluice
