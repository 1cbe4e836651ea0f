#pragma once
// What kernels share: 16-byte accesses, sums over a warp or block, and numbers on which the formulas of elementwise_rules.h run.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/dtype.h"

namespace sluice::kernels {

constexpr int kWarpSize = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

/// 16 bytes of T, the widest access of a thread.
template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T at[kCount];
};

/// Writes a value of 4, 8 or a multiple of 16 bytes to global memory that is aligned to its size, 16 bytes at a time. The compiler takes a
/// plain assignment of elements that were computed apart into a store of each element; the intrinsic, otherwise a store like any other, is
/// not taken apart.
template <class Value>
__device__ void store_whole(void* to, const Value& value) {
  using Word = std::conditional_t<sizeof(Value) % 16 == 0, int4, std::conditional_t<sizeof(Value) == 8, int2, int>>;
  static_assert(sizeof(Value) % sizeof(Word) == 0);
  Word words[sizeof(Value) / sizeof(Word)];
  memcpy(words, &value, sizeof(Value));
#pragma unroll
  for (unsigned i = 0; i < sizeof(Value) / sizeof(Word); ++i) __stwb(static_cast<Word*>(to) + i, words[i]);
}

/// `from` must be aligned to 16 bytes.
template <class T>
__device__ Pack<T> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <class T>
__device__ void store_pack(T* to, const Pack<T>& pack) {
  store_whole(to, pack);
}

/// All pointers allow 16-byte accesses and so does a row of `count` elements.
template <class T, class... Pointers>
bool packs_fit(int64_t count, const Pointers*... pointers) {
  return count % Pack<T>::kCount == 0 && ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

/// The thread's index in the grid, and the number of threads of the grid, along x.
__device__ inline int64_t grid_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t grid_size() { return int64_t{gridDim.x} * blockDim.x; }

template <class V>
__device__ V warp_sum(V value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}

/// Keeps NaN, as a maximum over elements must.
template <class V>
__device__ V larger(V a, V b) {
  return a > b || a != a ? a : b;
}
template <class V>
__device__ V warp_max(V value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) value = larger(value, __shfl_xor_sync(kWholeWarp, value, distance));
  return value;
}

/// The combined value of the threads of each team of a block, in all of them, in a fixed order: a team is whole warps along x, and the
/// block one team where it has no other dimension. All threads of the block take part. `combine` combines a warp's values; `neutral`
/// changes nothing. May be called again at once.
template <class V, class WarpCombine>
__device__ V team_combine(V value, V neutral, WarpCombine combine) {
  __shared__ V of_warp[kWarpSize];
  const int warps = blockDim.x / kWarpSize, lane = threadIdx.x % kWarpSize, first = threadIdx.y * warps;
  value = combine(value);
  if (warps == 1) return value;
  if (lane == 0) of_warp[first + threadIdx.x / kWarpSize] = value;
  __syncthreads();
  value = combine(lane < warps ? of_warp[first + lane] : neutral);
  __syncthreads();
  return value;
}
template <class V>
__device__ V team_sum(V value) {
  return team_combine(value, V(0), [](V x) { return warp_sum(x); });
}

#ifdef __CUDA_EMULATION__
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(emulation::dynamic_shared_memory());
}
#else
/// The block's dynamic shared memory, aligned to 16 bytes.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ int4 bytes[];
  return reinterpret_cast<T*>(bytes);
}
#endif

/// A number on which a formula written for `class V` runs; Lanes (lanes.h) is its counterpart on the CPU. T is what is stored: for bf16,
/// exp and division are the hardware's approximations, whose error is far below T's rounding and which are several times faster.
template <class T>
struct Scalar {
  using C = compute_t<T>;
  static constexpr bool kApproximate = std::is_same_v<T, bfloat16>;
  C value;

  __device__ Scalar(C number) : value(number) {}  // NOLINT: a number is its value
  template <class Constant>
  requires(!std::is_same_v<Constant, C> && std::is_arithmetic_v<Constant>) __device__ Scalar(Constant number)
      : value(static_cast<C>(number)) {}  // NOLINT: constants in formulas

  friend __device__ Scalar operator+(Scalar a, Scalar b) { return a.value + b.value; }
  friend __device__ Scalar operator-(Scalar a, Scalar b) { return a.value - b.value; }
  friend __device__ Scalar operator*(Scalar a, Scalar b) { return a.value * b.value; }
  friend __device__ Scalar operator/(Scalar a, Scalar b) {
    if constexpr (kApproximate) return __fdividef(a.value, b.value);
    return a.value / b.value;
  }
  friend __device__ Scalar operator-(Scalar a) { return -a.value; }
  friend __device__ Scalar abs(Scalar a) { return a.value < 0 ? -a.value : a.value; }
  friend __device__ Scalar sqrt(Scalar a) { return ::sqrt(a.value); }
  friend __device__ Scalar exp(Scalar a) {
    if constexpr (kApproximate) return __expf(a.value);
    return ::exp(a.value);
  }
  friend __device__ Scalar log(Scalar a) { return ::log(a.value); }
  friend __device__ Scalar log1p(Scalar a) { return ::log1p(a.value); }
  friend __device__ Scalar expm1(Scalar a) { return ::expm1(a.value); }
  friend __device__ Scalar sin(Scalar a) { return ::sin(a.value); }
  friend __device__ Scalar cos(Scalar a) { return ::cos(a.value); }
  friend __device__ Scalar floor(Scalar a) { return ::floor(a.value); }
  friend __device__ Scalar ceil(Scalar a) { return ::ceil(a.value); }
  friend __device__ Scalar rint(Scalar a) { return ::rint(a.value); }
  friend __device__ Scalar pow(Scalar a, C exponent) { return ::pow(a.value, exponent); }
  friend __device__ Scalar tanh(Scalar a) { return ::tanh(a.value); }
  friend __device__ Scalar erf(Scalar a) { return ::erf(a.value); }
  /// where_positive(x, a, b): a where x > 0, else b.
  friend __device__ Scalar where_positive(Scalar x, Scalar a, Scalar b) { return x.value > 0 ? a : b; }
};

}  // namespace sluice::kernels
