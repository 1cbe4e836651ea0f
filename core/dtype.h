#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/error.h"
#include "core/host_device.h"

namespace sluice {

/// Element types. f64 serves gradient checks; bf16 is stored, its arithmetic is done in f32.
enum class DType : uint8_t { f32, bf16, f64, i32, i64, u8 };

/// An f64 that rounds to a bf16, or another number of far fewer digits, as the whole number itself does: of one that needs more than 53 bits
/// the last that stays is 1 where any that goes is, so that it is no tie unless the number is.
SLUICE_HD inline double rounded_to_odd(int64_t value) {
  constexpr int64_t kExact = int64_t{1} << 53, kLow = 0x3ff;
  if (-kExact <= value && value <= kExact) return static_cast<double>(value);
  return static_cast<double>((value & ~kLow) | ((value & kLow) != 0 ? kLow + 1 : 0));
}

/// The same as an f32: the number, or that of its two neighbours whose last bit is 1. Keeps NaN and infinities; what is beyond the largest f32
/// becomes that.
SLUICE_HD inline float rounded_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const double held = nearest;
  if (held == value) return nearest;
  const bool is_beyond = value < 0 ? held < value : held > value;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(nearest) - (is_beyond ? 1u : 0u)) | 1u);
}

/// The upper half of an f32. Conversion rounds once, to nearest even, and keeps NaN.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  SLUICE_HD explicit bfloat16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto word = std::bit_cast<uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<uint16_t>((word >> 16) | 0x40u);
    else
      bits = static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
#endif
  }
  SLUICE_HD explicit bfloat16(double value) : bfloat16(rounded_to_odd(value)) {}
  template <std::integral T>
  SLUICE_HD explicit bfloat16(T value) {
    if constexpr (sizeof(T) <= 2)  // an f32 holds it
      *this = bfloat16(static_cast<float>(value));
    else
      *this = bfloat16(rounded_to_odd(static_cast<int64_t>(value)));
  }
  SLUICE_HD operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

size_t size_of(DType dtype);            ///< bytes an element
std::string_view name_of(DType dtype);  ///< "f32", "bf16", ...
std::ostream& operator<<(std::ostream& out, DType dtype);
bool is_floating(DType dtype);
/// The dtype in which arithmetic on a floating dtype is done, and in which sums and scratch are kept: f64 for f64, else f32.
inline DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
DType dtype_named(std::string_view name);  ///< Errors  UsageError, naming the known ones.

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
}

/// The type in which arithmetic on T is done: f32 for bf16, else T.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

/// Calls `f.template operator()<T>()` with the element type of a floating dtype; used inside backend files only.
/// Errors  UsageError "op: needs a floating dtype, got i32".
template <class F>
decltype(auto) on_float(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bfloat16>();
    case DType::f64:
      return f.template operator()<double>();
    default:
      throw UsageError(join(op, ": needs a floating dtype (f32, bf16, f64), got ", name_of(dtype)));
  }
}

/// The same for index dtypes: i32, i64 and u8.
template <class F>
decltype(auto) on_index(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    default:
      throw UsageError(join(op, ": needs an integer dtype (i32, i64, u8), got ", name_of(dtype)));
  }
}

/// The same for every dtype.
template <class F>
decltype(auto) on_any(DType dtype, const char* op, F&& f) {
  if (is_floating(dtype)) return on_float(dtype, op, f);
  return on_index(dtype, op, f);
}

}  // namespace sluice
