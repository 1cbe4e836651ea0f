#pragma once
#include <string_view>

#include "core/tensor.h"

namespace sluice {

/// In which numbers a model is trained. Master weights, gradients of weights, optimizer states, statistics, losses and sums are f32 in all.
enum class Precision {
  f32,
  tf32,  ///< as f32; products on CUDA devices may round their factors to 10 bits (Device::Options::allow_tf32), on others nothing changes
  bf16,  ///< activations, their gradients and a working copy of the weights are bf16
};

std::string_view name_of(Precision precision);  ///< "f32", "tf32", "bf16"
std::ostream& operator<<(std::ostream& out, Precision precision);
Precision precision_named(std::string_view name);  ///< Errors  UsageError, naming the known ones.

/// Of activations, and of weights as forward and backward read them.
inline DType working_dtype(Precision precision) { return precision == Precision::bf16 ? DType::bf16 : DType::f32; }
/// Floating elements in the working dtype, integers as they are.
Tensor in_working_dtype(const Tensor& x, Precision precision);

}  // namespace sluice
