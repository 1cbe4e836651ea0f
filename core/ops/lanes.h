#pragma once
// g++ 12 reports its own AVX-512 headers (its bug 105593) wherever they are inlined: off for the file that includes this.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <type_traits>
#include <unsupported/Eigen/SpecialFunctions>
#include <utility>

#include "core/dtype.h"

namespace sluice::kernels {

/// bf16 in memory, f32 in a register of the widest size, in bits.
namespace bf16_lanes {

constexpr int kCount = Eigen::internal::packet_traits<float>::size;
typedef uint16_t Halves __attribute__((vector_size(2 * kCount)));
typedef uint32_t Words __attribute__((vector_size(4 * kCount)));

#ifdef __AVX512F__
// g++ 12 takes conversions between words and halves apart, into halves of registers.
inline Words load(const bfloat16* x) {
  return std::bit_cast<Words>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)))) << 16;
}
inline void store_halves(bfloat16* y, Words words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtepi32_epi16(std::bit_cast<__m512i>(words)));
}
#else
inline Words load(const bfloat16* x) {
  Halves halves;
  std::memcpy(&halves, x, sizeof halves);
  return __builtin_convertvector(halves, Words) << 16;
}
inline void store_halves(bfloat16* y, Words words) {
  const Halves halves = __builtin_convertvector(words, Halves);
  std::memcpy(static_cast<void*>(y), &halves, sizeof halves);
}
#endif

/// Rounds as bfloat16(float) does.
inline void store(bfloat16* y, Words words) {
#ifdef __AVX512BF16__
  constexpr int kSubnormal = 0x20;  // the instruction takes those for zero
  const __m512 floats = std::bit_cast<__m512>(words);
  if (__builtin_expect(_mm512_fpclass_ps_mask(floats, kSubnormal) == 0, 1))
    return _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), std::bit_cast<__m256i>(_mm512_cvtneps_pbh(floats)));
#endif
  const Words rounded = (words + 0x7fff + (words >> 16 & 1)) >> 16, quiet = words >> 16 | 0x40;
  store_halves(y, (words & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

}  // namespace bf16_lanes

/// Bytes in memory, floats or doubles in a register.
namespace byte_lanes {

constexpr int kCount = Eigen::internal::packet_traits<float>::size;
typedef uint8_t Bytes __attribute__((vector_size(kCount)));
typedef uint16_t Halves __attribute__((vector_size(2 * kCount)));
typedef int32_t Words __attribute__((vector_size(4 * kCount)));
typedef float Floats __attribute__((vector_size(4 * kCount)));

#ifdef __AVX512F__
// g++ 12 takes conversions between bytes and words apart, into halves of registers.
inline auto load(const uint8_t* x, float) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}
inline void store(uint8_t* y, Eigen::internal::packet_traits<float>::type lanes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(lanes)));
}
#else
// Doubled and halved in two steps: g++ 12 takes a wider one apart, element by element.
inline auto load(const uint8_t* x, float) {
  Bytes bytes;
  std::memcpy(&bytes, x, sizeof bytes);
  const Words words = __builtin_convertvector(__builtin_convertvector(bytes, Halves), Words);
  return std::bit_cast<Eigen::internal::packet_traits<float>::type>(__builtin_convertvector(words, Floats));
}
inline void store(uint8_t* y, Eigen::internal::packet_traits<float>::type lanes) {
  const Words words = __builtin_convertvector(std::bit_cast<Floats>(lanes), Words);
  const Bytes bytes = __builtin_convertvector(__builtin_convertvector(words, Halves), Bytes);
  std::memcpy(y, &bytes, sizeof bytes);
}
#endif

// f64 serves checks.
inline auto load(const uint8_t* x, double) {
  using Register = Eigen::internal::packet_traits<double>::type;
  double values[sizeof(Register) / sizeof(double)];
  for (double& value : values) value = *x++;
  return Eigen::internal::ploadu<Register>(values);
}
inline void store(uint8_t* y, Eigen::internal::packet_traits<double>::type lanes) {
  double values[sizeof lanes / sizeof(double)];
  Eigen::internal::pstoreu(values, lanes);
  for (double value : values) *y++ = static_cast<uint8_t>(value);
}

}  // namespace byte_lanes

/// One SIMD register of T (float or double) with arithmetic, so that a formula written once for `class V` runs on all lanes.
/// Every element goes through the same instructions, also in a short tail: bits depend neither on alignment nor on the place in a chunk.
template <class T>
struct Lanes {
  using Register = typename Eigen::internal::packet_traits<T>::type;
  static constexpr int kCount = Eigen::internal::packet_traits<T>::size;

  Register all;

  Lanes() = default;
  Lanes(Register lanes) : all(lanes) {}                                                  // NOLINT: a register is its lanes
  Lanes(double value) : all(Eigen::internal::pset1<Register>(static_cast<T>(value))) {}  // NOLINT: constants in formulas

  static Lanes load(const T* x) { return Eigen::internal::ploadu<Register>(x); }
  void store(T* y) const { Eigen::internal::pstoreu(y, all); }
  static Lanes load(const bfloat16* x) { return std::bit_cast<Register>(bf16_lanes::load(x)); }
  void store(bfloat16* y) const { bf16_lanes::store(y, std::bit_cast<bf16_lanes::Words>(all)); }

  static Lanes load(const uint8_t* x) { return byte_lanes::load(x, T()); }
  void store(uint8_t* y) const { byte_lanes::store(y, all); }

  friend Lanes operator+(Lanes a, Lanes b) { return Eigen::internal::padd(a.all, b.all); }
  friend Lanes operator-(Lanes a, Lanes b) { return Eigen::internal::psub(a.all, b.all); }
  friend Lanes operator*(Lanes a, Lanes b) { return Eigen::internal::pmul(a.all, b.all); }
  friend Lanes operator/(Lanes a, Lanes b) { return Eigen::internal::pdiv(a.all, b.all); }
  friend Lanes operator-(Lanes a) { return Eigen::internal::pnegate(a.all); }
  friend Lanes abs(Lanes a) { return Eigen::internal::pabs(a.all); }
  friend Lanes sqrt(Lanes a) {  // Eigen's packet form is an approximation; this loop becomes the exact instruction
    return each(a, [](T x) { return std::sqrt(x); });
  }
  /// 0 where it is below the least normal number.
  friend Lanes exp(Lanes a) {
    // The least number with a normal exponential.
    constexpr double kLogOfLeast = sizeof(T) == 4 ? -87.33654022216797 : -708.39641853226410622;
#ifdef __AVX512F__
    if constexpr (sizeof(T) == 4) return exp_by_powers(a.all, _mm512_set1_ps(static_cast<float>(kLogOfLeast)));
#endif
    return where_positive(Lanes(kLogOfLeast) - a, Lanes(0.0), Lanes(Eigen::internal::pexp(a.all)));  // Eigen's never gets to 0
  }
  friend Lanes log(Lanes a) { return Eigen::internal::plog(a.all); }
  friend Lanes log1p(Lanes a) {
    if constexpr (sizeof(T) == 4) return Eigen::internal::plog1p(a.all);
    return each(a, [](T x) { return std::log1p(x); });
  }
  friend Lanes expm1(Lanes a) {
    if constexpr (sizeof(T) == 4) return Eigen::internal::pexpm1(a.all);
    return each(a, [](T x) { return std::expm1(x); });
  }
  friend Lanes sin(Lanes a) {
    return of_angle<0>(a, [](T x) { return std::sin(x); });
  }
  friend Lanes cos(Lanes a) {
    return of_angle<1>(a, [](T x) { return std::cos(x); });
  }
  friend Lanes floor(Lanes a) { return Eigen::internal::pfloor(a.all); }
  friend Lanes ceil(Lanes a) { return Eigen::internal::pceil(a.all); }
  friend Lanes rint(Lanes a) { return Eigen::internal::print(a.all); }
  friend Lanes pow(Lanes a, T exponent) {
    return each(a, [exponent](T x) { return std::pow(x, exponent); });
  }
  friend Lanes tanh(Lanes a) {
    if constexpr (sizeof(T) == 4) return Eigen::internal::ptanh(a.all);
    return each(a, [](T x) { return std::tanh(x); });
  }
  friend Lanes erf(Lanes a) {
    if constexpr (sizeof(T) == 4) return Eigen::internal::perf(a.all);
    return each(a, [](T x) { return std::erf(x); });
  }
  /// where_positive(x, a, b): a in the lanes with x > 0, else b.
  friend Lanes where_positive(Lanes x, Lanes a, Lanes b) {
    return Eigen::internal::pselect(Eigen::internal::pcmp_lt(Lanes(0).all, x.all), a.all, b.all);
  }
  /// a where x == y, else b.
  friend Lanes where_equal(Lanes x, Lanes y, Lanes a, Lanes b) { return x.all == y.all ? a.all : b.all; }
  /// Replaces the lanes of `largest` that x exceeds, and those of `place` along with them. The first NaN stays.
  friend void raise(Lanes& largest, Lanes& place, Lanes x, Lanes at) {
    const auto is_larger = ~(x.all <= largest.all) & (largest.all == largest.all);
    largest.all = is_larger ? x.all : largest.all;
    place.all = is_larger ? at.all : place.all;
  }

 private:
#ifdef __AVX512F__
  /// 2^k exp(r) with whole k and |r| <= log(2) / 2, by one instruction that multiplies with powers of two, where Eigen has several; log(2) in two
  /// parts. Source  Moshier, Cephes 2.2, expf.c, for the polynomial.
  static Lanes exp_by_powers(__m512 x, __m512 log_of_least) {
    const __m512 finite = _mm512_min_ps(_mm512_set1_ps(89.0f), x);  // beyond the largest exponential; NaN stays
    const __m512 k = _mm512_roundscale_ps(_mm512_mul_ps(finite, _mm512_set1_ps(std::numbers::log2e_v<float>)), 0);
    const __m512 r = _mm512_fnmadd_ps(k, _mm512_set1_ps(-2.12194440e-4f), _mm512_fnmadd_ps(k, _mm512_set1_ps(0.693359375f), finite));
    __m512 y = _mm512_set1_ps(1.9875691500e-4f);
    for (float coefficient : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f})
      y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(coefficient));
    return Register(_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, log_of_least, _CMP_NLT_UQ), y, k));
  }
#endif
  /// The sine of x + quarters pi/2, which `exact` computes of a number. In f32 x = k pi/2 + r with |r| <= pi/4, r by Cody and Waite: the
  /// first three parts of pi/2 have 11 bits, so that their products with k are exact. Then Taylor's series. The library takes what is too
  /// far for that. (Eigen's sine: g++ runs its way for large angles always, with -fno-trapping-math, in ten times the time.)
  template <int quarters, class F>
  static Lanes of_angle(Lanes x, F exact) {
    if constexpr (sizeof(T) == 8) return each(x, exact);
    constexpr double kFarthest = 6000;
    const Lanes k = rint(x * (2 * std::numbers::inv_pi));
    const Lanes r = x - k * 0x1.92p+0 - k * 0x1.fb4p-12 - k * 0x1.444p-24 - k * 0x1.68c234p-39, z = r * r;
    const Lanes series = r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880))));
    const Lanes sine = where_equal(x, 0, x, series);  // -0 stays
    const Lanes cosine = 1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 - z * (1.0 / 3628800)))));
    const Lanes quarter = k + quarters, half = floor(quarter * 0.5), sign = half - 2 * floor(half * 0.5);
    const Lanes size = where_equal(quarter, 2 * half, sine, cosine), y = where_positive(sign, -size, size);
    const Lanes excess = abs(x) - kFarthest;
    if (!Eigen::internal::predux_any(Eigen::internal::pcmp_lt(Lanes(0).all, excess.all))) return y;
    return where_positive(excess, each(x, exact), y);
  }

  /// The library's scalar function, lane by lane.
  template <class F>
  static Lanes each(Lanes a, F f) {
    alignas(64) T values[kCount];
    a.store(values);
    for (T& value : values) value = f(value);
    return load(values);
  }
};

/// How far ahead of what a pass over arrays takes it asks for more: the processor's own prefetching, which begins anew with each page, does not
/// keep up (docs/performance.md).
constexpr int64_t kBytesAhead = 2048;

template <class S>
void ask_ahead(const S* x) {
  __builtin_prefetch(reinterpret_cast<const char*>(x) + kBytesAhead, 0);
}
/// For what is written.
template <class S>
void ask_ahead(S* y) {
  __builtin_prefetch(reinterpret_cast<const char*>(y) + kBytesAhead, 1);
}

/// For `count` elements at once.
template <class S>
void ask_ahead(S* x, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(S);
  for (int64_t i = 0; i < count; i += kLine) ask_ahead(x + i);
}

/// Loads lanes from a place of arrays, whose address it also gives, for what takes several registers at once.
template <class T, bool kAsksAhead = false>
struct LanesAt {
  template <class S>
  Lanes<T> operator()(const S* x) const {
    if constexpr (kAsksAhead) ask_ahead(x + place);
    return Lanes<T>::load(x + place);
  }
  template <class S>
  const S* address(const S* x) const {
    return x + place;
  }
  int64_t place;
};

/// Calls body(load, store) for every register of [begin, end): load(x) gives the lanes of x at that place, store(y, lanes) writes them.
/// x and y are of T or of its arithmetic type. In the tail lanes go through a padded buffer: nothing is read or written outside.
/// kAsksAhead: for a pass over arrays; not for a body that reads the same numbers again and again.
template <class T, bool kAsksAhead = true, class Body>
void for_lanes(int64_t begin, int64_t end, const Body& body) {
  using V = Lanes<compute_t<T>>;
  int64_t i = begin;
  for (; i + V::kCount <= end; i += V::kCount)
    body(LanesAt<compute_t<T>, kAsksAhead>{i}, [i](auto* y, V lanes) {
      if constexpr (kAsksAhead) ask_ahead(y + i);
      lanes.store(y + i);
    });
  if (i == end) return;
  const int64_t rest = end - i;
  const auto load = [i, rest]<class S>(const S* x) {
    S padded[V::kCount]{};
    std::copy_n(x + i, rest, padded);
    return V::load(padded);
  };
  const auto store = [i, rest]<class S>(S* y, V lanes) {
    S padded[V::kCount];
    lanes.store(padded);
    std::copy_n(padded, rest, y + i);
  };
  body(load, store);
}

/// for_lanes() with blocks of kRegisters registers, then single ones: body(number of registers, load, store) of a block at x + i, whose
/// further registers lie at load(x + Lanes::kCount), and so on. For bodies that read a list of their own, which then serves several
/// registers. `load` is a LanesAt where there is more than one register.
template <class T, int kRegisters, class Body>
void for_lane_blocks(int64_t begin, int64_t end, const Body& body) {
  using V = Lanes<compute_t<T>>;
  constexpr int64_t kBlock = kRegisters * V::kCount;
  for (; begin + kBlock <= end; begin += kBlock)
    body(std::integral_constant<int, kRegisters>(), LanesAt<compute_t<T>>{begin}, [begin](auto* y, V lanes) { lanes.store(y + begin); });
  for_lanes<T, false>(begin, end, [&](auto load, auto store) { body(std::integral_constant<int, 1>(), load, store); });
}

/// Calls body(r) for every r < kRegisters, a constant each time: an array of registers that a loop indexes lies in memory.
template <int kRegisters, class Body>
void for_registers(const Body& body) {
  [&]<int... r>(std::integer_sequence<int, r...>) { (body(std::integral_constant<int, r>()), ...); }
  (std::make_integer_sequence<int, kRegisters>());
}

/// sums[r] += the lanes of x that lie at bytes equal to `byte`; of some registers side by side.
template <class T, class S, int kRegisters>
void add_where_equal(const uint8_t* bytes, uint8_t byte, const S* x, Lanes<T> (&sums)[kRegisters]) {
  using V = Lanes<T>;
#ifdef __AVX512BW__
  if constexpr (sizeof(T) == 4 && kRegisters == 4) {  // one comparison for all of them
    const uint64_t equal = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(bytes), _mm512_set1_epi8(static_cast<char>(byte)));
    return for_registers<kRegisters>([&](auto r) {
      const auto here = static_cast<__mmask16>(equal >> (r * V::kCount));
      sums[r].all = _mm512_mask_add_ps(sums[r].all, here, sums[r].all, V::load(x + r * V::kCount).all);
    });
  }
#endif
  for_registers<kRegisters>(
      [&](auto r) { sums[r] = sums[r] + where_equal(V::load(bytes + r * V::kCount), V(byte), V::load(x + r * V::kCount), V(0)); });
}

}  // namespace sluice::kernels
