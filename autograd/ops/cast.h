#pragma once
#include "autograd/var.h"

namespace sluice {

/// x in another dtype; the gradient is cast back, and integers, which have none, are a constant. x itself when it has that dtype already.
Var cast(const Var& x, DType dtype);

}  // namespace sluice
