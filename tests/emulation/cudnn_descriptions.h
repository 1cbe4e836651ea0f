#pragma once
#include <variant>

#include "tests/emulation/cudnn_composition.h"
#include "tests/emulation/cudnn_convolution.h"
#include "tests/emulation/cudnn_object.h"

namespace sluice::emulation {

// What descriptors describe. All throw std::invalid_argument for attributes that are missing, of another type or do not fit.
CudnnTensor tensor_of(const Object& from);
CudnnWindow window_of(const Object& from);
void check_operation(const Object& operation);
/// A graph of one convolution, or of operations that are made one after the other.
std::variant<CudnnConvolution, CudnnComposition> described(const Object& graph);
bool is_bf16_weight_gradient_in_f32(const Object& graph);

}  // namespace sluice::emulation
