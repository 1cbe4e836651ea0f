#pragma once
#include <cstdint>

#include "emulation.h"

/// Stand-ins for the matrix instructions of a warp; all 32 lanes must call. A register holds two bf16, the lower column in the lower half.
/// Source  PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
namespace sluice::emulation {

/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: d [16, 8] = a [16, 16] b [16, 8] + c, summed in f32 in the order of k.
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4]);

/// ldmatrix.sync.aligned.m8n8.xN.shared.b16: lane 8m + i gives the address of row i of matrix m, 8 elements of 2 bytes; register m of
/// lane l gets elements 2 (l % 4) and the next of row l / 4; `_trans`: of column l / 4.
/// Errors  a row address that is not aligned to 16 bytes.
void ldmatrix_x1(uint32_t (&registers)[1], const void* row_address);
void ldmatrix_x2(uint32_t (&registers)[2], const void* row_address);
void ldmatrix_x4(uint32_t (&registers)[4], const void* row_address);
void ldmatrix_x1_trans(uint32_t (&registers)[1], const void* row_address);
void ldmatrix_x2_trans(uint32_t (&registers)[2], const void* row_address);
void ldmatrix_x4_trans(uint32_t (&registers)[4], const void* row_address);

}  // namespace sluice::emulation
