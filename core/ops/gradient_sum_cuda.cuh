#pragma once
#include <type_traits>

#include "core/cuda/kernel.h"

namespace sluice::kernels {

/// a + b, rounded. Never fused with the product that made one of them, so the bits are those of a pass that adds afterwards.
template <class T>
__device__ T rounded_sum(T a, T b) {
  if constexpr (std::is_same_v<T, double>)
    return __dadd_rn(a, b);
  else
    return static_cast<T>(__fadd_rn(static_cast<float>(a), static_cast<float>(b)));
}

}  // namespace sluice::kernels
