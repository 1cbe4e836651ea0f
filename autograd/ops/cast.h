#pragma once
#include "autograd/var.h"

namespace sluice {

/// x in another floating dtype; the gradient is cast back. x itself when it has that dtype already.
Var cast(const Var& x, DType dtype);

}  // namespace sluice
