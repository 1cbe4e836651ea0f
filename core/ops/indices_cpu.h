#pragma once
// Integers that data brings, checked on the CPU before any work.
#include "core/error.h"
#include "core/tensor.h"

namespace sluice::kernels {

/// In one thread, so that the error names the first bad position. `needs` begins the message: "embedding: needs ids".
template <class Index>
void require_below(const char* needs, const Index* indices, int64_t count, int64_t limit, const char* cure) {
  for (int64_t p = 0; p < count; ++p) {
    const auto index = static_cast<int64_t>(indices[p]);
    if (index < 0 || index >= limit) throw UsageError(join(needs, " in [0, ", limit, "), got ", index, " at position ", p, "; ", cure));
  }
}

}  // namespace sluice::kernels
