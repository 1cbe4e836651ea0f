#pragma once
#include <algorithm>
#include <cstdint>

#include "core/dtype.h"
#include "core/ops/lanes.h"

/// What products by panels share, whichever instructions multiply these.
namespace sluice {

/// The least multiple of `to` that is no less than x >= 0.
constexpr int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

inline void copy_floats(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
inline void copy_floats(const bfloat16* from, int64_t count, float* to) {
  using V = kernels::Lanes<float>;
  int64_t i = 0;
  for (; i + V::kCount <= count; i += V::kCount) V::load(from + i).store(to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
inline void round_floats(const float* from, int64_t count, bfloat16* to) {
  using V = kernels::Lanes<float>;
  int64_t i = 0;
  for (; i + V::kCount <= count; i += V::kCount) V::load(from + i).store(to + i);
  for (; i < count; ++i) to[i] = static_cast<bfloat16>(from[i]);
}

}  // namespace sluice
