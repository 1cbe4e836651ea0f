#pragma once
// CUDA's vector types with CUDA's alignment: -fsanitize=alignment finds an access that the hardware would refuse.
struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
  constexpr dim3(uint3 from) : x(from.x), y(from.y), z(from.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

/// T2 and T4 with their make functions; a T4 of 8-byte elements is aligned to 16 bytes like the others.
#define SLUICE_EMULATED_VECTORS(T, name)                       \
  struct alignas(2 * sizeof(T)) name##2 {                      \
    T x, y;                                                    \
  };                                                           \
  struct alignas(sizeof(T) < 8 ? 4 * sizeof(T) : 16) name##4 { \
    T x, y, z, w;                                              \
  };                                                           \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }   \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SLUICE_EMULATED_VECTORS(signed char, char)
SLUICE_EMULATED_VECTORS(unsigned char, uchar)
SLUICE_EMULATED_VECTORS(short, short)
SLUICE_EMULATED_VECTORS(unsigned short, ushort)
SLUICE_EMULATED_VECTORS(int, int)
SLUICE_EMULATED_VECTORS(unsigned, uint)
SLUICE_EMULATED_VECTORS(long long, longlong)
SLUICE_EMULATED_VECTORS(unsigned long long, ulonglong)
SLUICE_EMULATED_VECTORS(float, float)
SLUICE_EMULATED_VECTORS(double, double)
#undef SLUICE_EMULATED_VECTORS
