#pragma once
#include "core/cpu/onednn_matmul.h"
#include "core/cpu/panel_rows.h"

namespace sluice {

/// c = op(a) op(b) + beta c or, with beta 0, plus a bias, on the calling thread by the tiles of AMX: panels of both matrices are copied into
/// the order in which tiles read them (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Intel AMX"). Where has_amx() is false
/// plain loops do what the tiles do, to check by.
///
/// Dtypes       a and b bf16, c and its bias bf16 or f32; or all f32. Sums are in f32, and what c holds in bf16 is rounded once. Numbers below
///              the least normal one count as zero. A number in f32 is three in bf16 (core/cpu/amx_panels.h): its last bits count as zero where
///              they are below the least normal number, and one that is infinite, or beyond the numbers of bf16, makes NaN of its sums.
/// Shape        k is at least 1.
/// Determinism  every element of c is one sum in the order of k, by steps of 32, which begins with its bias. For
///              beta = 1 it is added to what c held, once it is whole. Its bits depend on its row of op(a) and column of op(b) alone,
///              however a product is cut and whichever rows are listed.
/// Scratch      amx_gemm_scratch(product) bytes, on a cache line.
/// Threads      any.
/// Cost         2 m n k FLOPs; in f32 the tiles do six times as many.
template <class T, class C>
void amx_gemm(const onednn::Product& product, const T* a, const T* b, const C* bias, C* c, ListedRows rows, void* scratch);

/// Of the product, and of every part of its rows or columns and of its sums.
int64_t amx_gemm_scratch(const onednn::Product& product);

}  // namespace sluice
