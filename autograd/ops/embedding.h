#pragma once
#include "autograd/var.h"

namespace sluice {

/// Rows of a table, differentiable in the table; keeps the ids.
Var embedding(const Tensor& ids, const Var& table);

}  // namespace sluice
