#pragma once
#include "core/tensor.h"

namespace sluice {

/// Values, and their indices along the axis that was sorted, i64.
struct Sorted {
  Tensor values, indices;
};

/// The elements along an axis in ascending or descending order. Equal ones stay in their order, and NaN counts as the largest.
/// Shape   any but a scalar -> values and indices of the same; row-major for the last axis, else views that are transposed.
/// Dtypes  all.
/// Errors  UsageError for an axis that is not there, or as long as 2^31.
/// Cost    n log n comparisons on a CPU, n (log n)^2 in a sorting network on a GPU; 8 bytes of scratch an element, 16 for f64 and i64. On a
///         GPU topk with k <= 1024 reads long rows of dtypes of at most 4 bytes a few times, most often twice, and has no scratch.
Sorted sort(const Tensor& x, int axis = -1, bool descending = false);
/// The indices alone.
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);

/// The k largest elements along an axis, from the largest on, or the k smallest, from the smallest on: the first k of sort().
/// Shape   values and indices of x's shape with k along the axis.
/// Errors  those of sort; UsageError unless 0 <= k <= extent of the axis.
Sorted topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true);

namespace kernels {
/// Whether a GPU finds the first k of rows of n elements without sorting the rows, and so without keys: these are [rows, 0, 1] then.
inline bool selects_first(DType dtype, int64_t n, int64_t k) { return size_of(dtype) <= 4 && n > 2048 && k <= 1024; }

/// The first k of each row of x [rows, n] in order -> values [rows, k] and indices, i64. All row-major; keys, i64, is scratch of one key an
/// element (sort_keys.h), of each row bit_ceil(n) on a GPU.
void sort(Cpu& cpu, const Tensor& x, bool descending, const Tensor& keys, const Tensor& values, const Tensor& indices);
void sort(Cuda& cuda, const Tensor& x, bool descending, const Tensor& keys, const Tensor& values, const Tensor& indices);
}  // namespace kernels

}  // namespace sluice
