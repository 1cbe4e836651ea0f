#pragma once
#include "core/cpu/onednn_matmul.h"
#include "core/cpu/panel_rows.h"

namespace sluice {

/// c = op(a) op(b) + beta c + bias on the calling thread: panels of both matrices are copied to where a tile of registers reads them
/// along, as in Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008).
///
/// Dtypes       f32; or a and b bf16, which become f32 as they are copied, and c and its bias bf16 or f32. Arithmetic is in f32, and what
///              c holds in bf16 is rounded once.
/// Determinism  every element of c is one chain of multiply-adds in the order of k, which begins with its bias, or with what it was for
///              beta = 1: its bits depend on its row of op(a) and column of op(b) alone, however a product is cut and whichever rows are
///              listed.
/// Scratch      packed_gemm_scratch(product) floats, on a cache line.
/// Threads      any.
/// Cost         2 m n k FLOPs; packing is worth its while from some 64 rows and columns on (docs/performance.md).
template <class T, class C>
void packed_gemm(const onednn::Product& product, const T* a, const T* b, const C* bias, C* c, ListedRows rows, float* scratch);

/// Whether nothing else that a build has is faster for products that are large enough to be packed: with registers of 32 bytes. With those
/// of 64 that depends on a product's sizes (core/ops/matmul_cpu.cpp).
bool packed_gemm_is_fastest();

/// Of the product, and of every part of its rows or columns.
int64_t packed_gemm_scratch(const onednn::Product& product);

}  // namespace sluice
