#pragma once
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// A tensor that an op reads or writes, for the time of a call.
using Operand = std::reference_wrapper<const Tensor>;

/// The device of an op's operands; undefined ones (an absent bias) are passed over.
/// Errors  UsageError naming two operands that are on two devices, or that there is none.
Device& device_of(const char* op, std::span<const Operand> operands);
inline Device& device_of(const char* op, std::initializer_list<Operand> operands) {
  return device_of(op, std::span(operands.begin(), operands.size()));
}

}  // namespace sluice
