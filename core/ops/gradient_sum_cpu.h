#pragma once
#include <algorithm>

#include "core/ops/lanes.h"

namespace sluice::kernels {

/// to[i] = make (+ added[i]) for i in [begin, end). make(load, begin) gives the lanes of a gradient, which it loads from addresses beyond
/// `begin`; `added` may be null. Gradients are rounded in memory before they are added, as a pass that adds afterwards finds them: a
/// compiler would fuse the addition with the product that made one of them.
template <class T, class Make>
void write_gradient(int64_t begin, int64_t end, const T* added, T* to, const Make& make) {
  if (!added) return for_lanes<T>(0, end - begin, [&](auto load, auto store) { store(to + begin, make(load, begin)); });
  constexpr int64_t kBlock = 4096 / sizeof(T);  // stays in the first-level cache
  alignas(64) T made[kBlock];
  for (; begin < end; begin += kBlock) {
    const int64_t count = std::min(kBlock, end - begin);
    for_lanes<T>(0, count, [&](auto load, auto store) { store(made, make(load, begin)); });
    for_lanes<T>(0, count, [&](auto load, auto store) { store(to + begin, load(made) + load(added + begin)); });
  }
}

}  // namespace sluice::kernels
