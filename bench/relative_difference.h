#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice::bench {

/// ||a - b|| / ||b|| over all tensors of two answers, computed on the device.
double relative_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b);

}  // namespace sluice::bench
