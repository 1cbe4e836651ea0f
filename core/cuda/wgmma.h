#pragma once
// Products by the tensor cores of a warpgroup, four warps of which the first is a multiple of four: [64, N] sums of bf16, on sm_90a alone.
// The right factor lies in shared memory, the left one there or in registers, and both are read while the threads go on.
//
// In shared memory a matrix is panels of 64 columns, rows of 128 bytes, in which the 16-byte chunk c of row r lies at place c ^ r % 8, and
// a panel begins at a multiple of 1024 bytes: the "128-byte swizzle" of the PTX ISA, by which eight rows of one column of chunks lie in
// different banks.
// Source  PTX ISA 9.0, "wgmma.mma_async", "Shared Memory Matrix Layout", "Matrix Descriptor Format".
#include "core/cuda/kernel.h"
#include "core/cuda/mma.h"

namespace sluice::kernels {

inline constexpr int kWarpgroup = 128, kPanelColumns = 64, kPanelAlignment = 1024;

/// Where in its panel an element lies.
__device__ inline int place_in_panel(int row, int column) { return row * kPanelColumns + (((column / 8) ^ (row % 8)) * 8 | column % 8); }

/// The block's dynamic shared memory, from where a panel may begin: up to kPanelAlignment bytes on.
__device__ inline bfloat16* dynamic_shared_panels() {
  char* const all = dynamic_shared<char>();
  const auto beyond = static_cast<int>(reinterpret_cast<uintptr_t>(all) % kPanelAlignment);
  return reinterpret_cast<bfloat16*>(all + (beyond == 0 ? 0 : kPanelAlignment - beyond));
}

#ifdef __CUDA_EMULATION__

/// A part of a panel: from a row that is a multiple of 8 on, and from a column that is a multiple of 16 on.
struct PanelPart {
  const bfloat16* first;
  /// The tensor cores exchange chunks by bits of the address.
  uint32_t at(int row, int column) const {
    const uintptr_t plain = reinterpret_cast<uintptr_t>(first + row * kPanelColumns + column);
    return reinterpret_cast<const bfloat16*>(plain ^ (plain >> 7 & 7) << 4)->bits;
  }
};
inline PanelPart part_of_panel(const bfloat16* first) { return {first}; }

inline void begin_products() {}
inline void commit_products() {}
template <int kPending>
void wait_for_products() {}
template <int kTiles>
void keep_sums(float (&)[kTiles][4]) {}
inline void show_to_products() {}

/// Of a warp: its 16 rows. `b(k, column)` is the right factor.
template <int kTiles, class Right>
void multiply_rows_of_warp(float (&sums)[kTiles][4], const uint32_t (&a)[4], Right b) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize, k = lane % 4 * 2, column = lane / 4;
  for (int t = 0; t < kTiles; ++t)
    mma_m16n8k16(sums[t], a, b(k, t * 8 + column) | b(k + 1, t * 8 + column) << 16,
                 b(k + 8, t * 8 + column) | b(k + 9, t * 8 + column) << 16);
}
template <int kTiles>
void multiply_rows(float (&sums)[kTiles][4], PanelPart a, PanelPart b, bool adds) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize, row = static_cast<int>(threadIdx.x) % kWarpgroup / kWarpSize * 16 + lane / 4;
  uint32_t rows[4];
  for (int i = 0; i < 4; ++i) {
    const int column = lane % 4 * 2 + i / 2 * 8;
    rows[i] = a.at(row + i % 2 * 8, column) | a.at(row + i % 2 * 8, column + 1) << 16;
  }
  if (!adds)
    for (auto& tile : sums)
      for (float& sum : tile) sum = 0;
  multiply_rows_of_warp(sums, rows, [&](int k, int column) { return b.at(column, k); });
}
inline void multiply_columns(float (&sums)[8][4], const uint32_t (&a)[4], PanelPart b) {
  multiply_rows_of_warp(sums, a, [&](int k, int column) { return b.at(k, column); });
}

#else

/// A part of a panel: from a row that is a multiple of 8 on, and from a column that is a multiple of 16 on.
using PanelPart = uint64_t;
__device__ inline PanelPart part_of_panel(const bfloat16* first) {
  constexpr uint64_t kOneColumnOfPanels = 1, kEightRows = 1024 >> 4, kSwizzle128 = 1;
  return (shared_address(first) & 0x3ffff) >> 4 | kOneColumnOfPanels << 16 | kEightRows << 32 | kSwizzle128 << 62;
}

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Other GPUs have no such products; a kernel that asks for one ends with an error.
__device__ inline void begin_products() { __trap(); }
__device__ inline void commit_products() {}
template <int kPending>
__device__ void wait_for_products() {}
__device__ inline void show_to_products() {}
template <int kTiles>
__device__ void multiply_rows(float (&)[kTiles][4], PanelPart, PanelPart, bool) {}
__device__ inline void multiply_columns(float (&)[8][4], const uint32_t (&)[4], PanelPart) {}
#else

/// Before a product, and after the threads have written registers that it reads or adds to.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Ends a group of products.
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most kPending groups are under way, the latest. Sums of the others are there after keep_sums().
template <int kPending>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// What this thread wrote to shared memory is there for products after the next barrier.
__device__ inline void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define SLUICE_TILE(t) "+f"(sums[t][0]), "+f"(sums[t][1]), "+f"(sums[t][2]), "+f"(sums[t][3])
#define SLUICE_TILES(t) SLUICE_TILE(t), SLUICE_TILE(t + 1), SLUICE_TILE(t + 2), SLUICE_TILE(t + 3)
#define SLUICE_32_REGISTERS                                                                                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
  "%26, %27, %28, %29, %30, %31"
#define SLUICE_64_REGISTERS                                                                                                              \
  SLUICE_32_REGISTERS                                                                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, " \
  "%58, %59, %60, %61, %62, %63"

/// sums [64, 8 kTiles] = a b^T, or += it, over 16 columns of 64 rows of a panel and 8 kTiles of another.
__device__ inline void multiply_rows(float (&sums)[8][4], PanelPart a, PanelPart b, bool adds) {
  asm volatile("{.reg .pred adds; setp.ne.b32 adds, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SLUICE_32_REGISTERS
               "}, %32, %33, adds, 1, 1, 0, 0;}"
               : SLUICE_TILES(0), SLUICE_TILES(4)
               : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ inline void multiply_rows(float (&sums)[16][4], PanelPart a, PanelPart b, bool adds) {
  asm volatile("{.reg .pred adds; setp.ne.b32 adds, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SLUICE_64_REGISTERS
               "}, %64, %65, adds, 1, 1, 0, 0;}"
               : SLUICE_TILES(0), SLUICE_TILES(4), SLUICE_TILES(8), SLUICE_TILES(12)
               : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
/// sums [64, 64] += a b of 16 rows of a panel. Each warp has 16 rows of a, as mma_m16n8k16 has them.
__device__ inline void multiply_columns(float (&sums)[8][4], const uint32_t (&a)[4], PanelPart b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SLUICE_32_REGISTERS "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : SLUICE_TILES(0), SLUICE_TILES(4)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef SLUICE_TILE
#undef SLUICE_TILES
#undef SLUICE_32_REGISTERS
#undef SLUICE_64_REGISTERS

#endif

/// After a wait for them: the compiler must not read sums before, nor keep copies of them.
template <int kTiles>
__device__ void keep_sums(float (&sums)[kTiles][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sums[t][e])::"memory");
}

#endif

}  // namespace sluice::kernels
