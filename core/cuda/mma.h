#pragma once
// What kernels for tensor cores are made of, as one function an instruction: products of 16 x 16 by 16 x 8 bf16 matrices, loads of their
// operands from shared memory, and copies to shared memory that run beside arithmetic. All GPUs since sm_80 have them.
// Source  PTX ISA 9.0, "mma.sync", "ldmatrix", "cp.async".
#include <cuda_runtime.h>

#include <cstdint>

#include "core/dtype.h"

namespace sluice::kernels {

#ifdef __CUDA_EMULATION__

inline void mma_m16n8k16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const float before[4] = {sums[0], sums[1], sums[2], sums[3]};
  const uint32_t b[2] = {b0, b1};
  emulation::mma_m16n8k16(sums, a, b, before);
}
inline void ldmatrix_x4(uint32_t (&registers)[4], const void* row) { emulation::ldmatrix_x4(registers, row); }
inline void ldmatrix_x4_trans(uint32_t (&registers)[4], const void* row) { emulation::ldmatrix_x4_trans(registers, row); }

template <int kBytes>
void copy_async(void* shared, const void* global, bool is_there) {
  emulation::copy_async(shared, global, kBytes, is_there);
}
inline void commit_copies() { emulation::commit_copies(); }
inline void wait_for_copies() { emulation::wait_for_copies(); }

inline uint32_t pack_bf16(float low, float high) { return bfloat16(low).bits | uint32_t{bfloat16(high).bits} << 16; }
inline float fast_exp2(float x) { return exp2f(x); }

#else

__device__ inline uint32_t shared_address(const void* shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(shared)); }

/// sums [16, 8] += a [16, 16] b [16, 8]. With g = lane / 4 and c = 2 (lane % 4), a register of two bf16 holds columns c and c + 1:
/// a: rows g and g + 8, then the same 8 columns on; b: rows c, c + 1 of column g, then 8 rows on; sums: row g, then row g + 8.
__device__ inline void mma_m16n8k16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices of bf16: lanes 8m to 8m + 7 give the rows of matrix m, of which a lane gets elements 2 (lane % 4) and the next of
/// row lane / 4.
__device__ inline void ldmatrix_x4(uint32_t (&registers)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared_address(row))
               : "memory");
}
/// The same of the transposed matrices: elements of column lane / 4.
__device__ inline void ldmatrix_x4_trans(uint32_t (&registers)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Starts a copy of 4 or 16 bytes, both ends aligned to that; zeros where nothing is there, and `global` is then not read.
template <int kBytes>
__device__ void copy_async(void* shared, const void* global, bool is_there) {
  const int bytes = is_there ? kBytes : 0;
  if constexpr (kBytes == 16)  // past L1: other threads of the block read it from shared memory only
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until all committed copies of this thread are done; a barrier then shows them to the other threads.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
/// 2^x to 2 units in the last place; results below 2^-126 are 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#endif

}  // namespace sluice::kernels
