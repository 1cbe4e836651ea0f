#pragma once
#include <type_traits>

#include "core/tensor.h"

namespace sluice {

/// Running sums along an axis:  y[..., k, ...] = sum of x[..., j, ...] over j <= k.
/// Shape   any but a scalar -> the same, row-major.
/// Dtypes  f32, f64, bf16 (sums in f32, each rounded once); i32 and i64, which wrap around.
/// Errors  UsageError for another dtype, or an axis that is not there.
/// Cost    2 passes over x, 1 where the axis is one chunk, or the last one and of at most 2^18 elements on a GPU.
/// An axis is cut into chunks by its extent alone, whose sums are added up first: the same bits for every number of threads. In that one
/// pass of a GPU packs of 16 bytes take the place of chunks.
Tensor cumsum(const Tensor& x, int axis);
/// The gradient:  dx[..., j, ...] = sum of dy[..., k, ...] over k >= j.
Tensor cumsum_backward(const Tensor& dy, int axis);

/// x seen as [outer, n, inner], with n in chunks.
struct ScanView {
  int64_t outer, n, inner;
  bool from_end;  ///< sums run from the last element to the first
  /// About as many items as there are chunks, so that neither the sums in a chunk nor those over chunks take long.
  int64_t chunk_items() const {
    int64_t items = 64;
    while (items * items < n) items *= 2;
    return items;
  }
  int64_t chunks() const { return (n + chunk_items() - 1) / chunk_items(); }
};

namespace kernels {
/// Calls f<T, S>(): T what is added, S the type of the sums, of integers the unsigned one, which may wrap around.
template <class F>
void on_summed(DType dtype, const F& f) {
  if (dtype == DType::i32) return f.template operator()<int32_t, uint32_t>();
  if (dtype == DType::i64) return f.template operator()<int64_t, uint64_t>();
  on_float(dtype, "cumsum", [&]<class T>() { f.template operator()<T, compute_t<T>>(); });
}

/// partial [outer, chunks, inner], of floats in the type of arithmetic, else of x's dtype, is scratch: what comes before each chunk. A single one has no elements there.
void cumsum(Cpu& cpu, const ScanView& view, const Tensor& x, const Tensor& partial, const Tensor& y);
void cumsum(Cuda& cuda, const ScanView& view, const Tensor& x, const Tensor& partial, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
