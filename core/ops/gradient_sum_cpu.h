#pragma once
#include <algorithm>

#include "core/ops/lanes.h"

namespace sluice::kernels {

/// to[i] = gradient (+ added[i]) for i in [begin, end), where make_to(begin, count, made) makes `count` of the gradients from `begin` on;
/// `added` may be null. Gradients are rounded in memory before they are added, as a pass that adds afterwards finds them: a compiler would fuse
/// the addition with the product that made one of them.
template <class T, class MakeTo>
void write_gradient_blocks(int64_t begin, int64_t end, const T* added, T* to, const MakeTo& make_to) {
  if (!added) return make_to(begin, end - begin, to + begin);
  constexpr int64_t kBlock = 4096 / sizeof(T);  // stays in the first-level cache
  alignas(64) T made[kBlock];
  for (; begin < end; begin += kBlock) {
    const int64_t count = std::min(kBlock, end - begin);
    make_to(begin, count, made);
    for_lanes<T>(0, count, [&](auto load, auto store) { store(to + begin, load(made) + load(added + begin)); });
  }
}
/// The same of make(load, begin), which gives the lanes of a gradient that it loads from addresses beyond `begin`.
template <class T, class Make>
void write_gradient(int64_t begin, int64_t end, const T* added, T* to, const Make& make) {
  write_gradient_blocks(begin, end, added, to, [&](int64_t first, int64_t count, T* made) {
    for_lanes<T>(0, count, [&](auto load, auto store) { store(made, make(load, first)); });
  });
}

}  // namespace sluice::kernels
