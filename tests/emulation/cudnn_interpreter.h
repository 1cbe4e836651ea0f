#pragma once
#include <map>

#include "tests/emulation/cudnn_composition.h"

namespace sluice::emulation {

/// The numbers of tensors, by uid, each as long as its tensor's span.
using CudnnNumbers = std::map<int64_t, std::vector<double>>;

/// Adds the results of all steps to `known`, which holds the operands from outside.
void interpret(const CudnnComposition& composition, CudnnNumbers& known);

}  // namespace sluice::emulation
