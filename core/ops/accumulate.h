#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// A sum and what is added to it.
struct Accumulation {
  Tensor sum, part;
};

/// sum += part, in place, for a list of tensors of one device: the bits of add_into() for each, in few launches on a GPU.
/// Shape   sum and part of a pair alike and contiguous. No sum's memory is another's, or a part's.
/// Dtypes  f32, f64; one for both of a pair.
/// Errors  UsageError when they differ.
void accumulate(const std::vector<Accumulation>& pairs);

namespace kernels {
void accumulate(Cpu& cpu, const std::vector<Accumulation>& pairs);
void accumulate(Cuda& cuda, const std::vector<Accumulation>& pairs);
}  // namespace kernels

}  // namespace sluice
