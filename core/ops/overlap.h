#pragma once
#include "core/tensor.h"

namespace sluice {

/// Refuses to write to a view whose elements an op reads through another view of the same memory: which of them it reads before it writes
/// them would depend on the number of threads. One and the same view is none.
/// Errors  UsageError naming the op and the cure.
/// Cost    of views of one storage whose ranges meet, a look at every element; of others none.
void refuse_overlap(const char* op, const Tensor& from, const Tensor& to);

/// The same, and one and the same view is refused too: for an op that reads an element again after it wrote others.
void refuse_shared_elements(const char* op, const Tensor& from, const Tensor& to);

}  // namespace sluice
