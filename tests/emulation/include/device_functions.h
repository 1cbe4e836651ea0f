#pragma once
#include <math.h>  // NOLINT: kernels use expf and the like from the global namespace

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "emulation.h"

// Arithmetic and memory functions of CUDA. Fast approximations are the exact functions here.
// glibc declares some of these names, so they are macros.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __powf powf

inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
/// Never fused with the product that made an operand, as the host's compiler may do with a plain sum.
template <class T>
T unfused_sum(T x, T y) {
  const volatile T apart[2] = {x, y};
  return apart[0] + apart[1];
}
inline float __fadd_rn(float x, float y) { return unfused_sum(x, y); }
inline double __dadd_rn(double x, double y) { return unfused_sum(x, y); }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }  // NaN gives 0

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(uint64_t{x} * y >> 32); }
inline int __mulhi(int x, int y) { return static_cast<int>(int64_t{x} * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(Wide{x} * y >> 64);
}
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= (x >> bit & 1u) << (31 - bit);
  return result;
}

/// CUDA's global min and max, for any two numbers of one type.
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// Loads and stores with a hint for the caches.
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}
template <class T>
void __stwb(T* to, T value) {
  *to = value;
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { sluice::emulation::fail("__trap() was called"); }

namespace sluice::emulation {
/// Replaces *at by new_value(*at) and returns the old value. No other thread runs meanwhile.
template <class T, class F>
T exchange(T* at, F&& new_value) {
  const T old = *at;
  *at = new_value(old);
  return old;
}
template <class T>
concept AtomicInteger = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <class T>
using same = std::type_identity_t<T>;
}  // namespace sluice::emulation

// Integers only: a gradient whose order of additions is open would not be reproducible.
template <sluice::emulation::AtomicInteger T>
T atomicAdd(T* at, sluice::emulation::same<T> value) {
  using Bits = std::make_unsigned_t<T>;
  return sluice::emulation::exchange(at, [&](T old) { return static_cast<T>(static_cast<Bits>(old) + static_cast<Bits>(value)); });
}
template <sluice::emulation::AtomicInteger T>
T atomicMax(T* at, sluice::emulation::same<T> value) {
  return sluice::emulation::exchange(at, [&](T old) { return std::max(old, value); });
}
template <sluice::emulation::AtomicInteger T>
T atomicMin(T* at, sluice::emulation::same<T> value) {
  return sluice::emulation::exchange(at, [&](T old) { return std::min(old, value); });
}
template <sluice::emulation::AtomicInteger T>
T atomicOr(T* at, sluice::emulation::same<T> value) {
  return sluice::emulation::exchange(at, [&](T old) { return old | value; });
}
template <sluice::emulation::AtomicInteger T>
T atomicExch(T* at, sluice::emulation::same<T> value) {
  return sluice::emulation::exchange(at, [&](T) { return value; });
}
template <sluice::emulation::AtomicInteger T>
T atomicCAS(T* at, sluice::emulation::same<T> expected, sluice::emulation::same<T> value) {
  return sluice::emulation::exchange(at, [&](T old) { return old == expected ? value : old; });
}
