#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// Sum, product, mean, extremes and variance over a list of axes (negative ones count from the end; an empty list means all).
/// Shape   x -> without the axes, or with extent 1 there when `keep` is set; row-major.
/// Dtypes  f32, f64, bf16 (sums in f32, rounded once at the end).
/// Errors  UsageError for an axis that is not there or comes twice; for a mean or an extreme of no elements.
/// Sums are taken in chunks that depend on shapes and the kind of device only, and combined in a fixed order: the same bits for every
/// number of threads. A chunk has several accumulators, so that the rounding error grows far slower than with a running sum.
Tensor sum(const Tensor& x, std::vector<int> axes = {}, bool keep = false);
Tensor prod(const Tensor& x, std::vector<int> axes = {}, bool keep = false);
Tensor mean(const Tensor& x, std::vector<int> axes = {}, bool keep = false);
Tensor max(const Tensor& x, std::vector<int> axes = {}, bool keep = false);
/// -max(-x): two passes more than max.
Tensor min(const Tensor& x, std::vector<int> axes = {}, bool keep = false);
/// The sum of the squared distances from the mean over the number of elements less `correction`: 1 estimates the variance of what x was drawn
/// from, 0 gives that of x itself. Four passes; the squares are of differences, so large means lose nothing.
/// Errors  UsageError also when there are no more elements than the correction.
Tensor variance(const Tensor& x, std::vector<int> axes = {}, bool keep = false, double correction = 1);
/// What the sum is divided by. Errors  as variance.
double variance_divisor(const Shape& shape, const std::vector<int>& axes, double correction);
/// The gradient of `max` over one axis (kept in y and dy): equal maxima share it evenly, and it is NaN where the maximum is.
Tensor max_backward(const Tensor& x, int axis, const Tensor& y, const Tensor& dy);
/// The gradient of `prod` over one axis (kept in dy): dy times the product of the other factors, also where factors are 0. With none of
/// them that is the product over the factor, so it is finite only where the product is.
Tensor prod_backward(const Tensor& x, int axis, const Tensor& dy);

/// From 0 on and in ascending order, all when empty. Errors  UsageError for one that is not there or comes twice.
std::vector<int> reduced_axes(const char* op, std::vector<int> axes, int rank);

/// The inverse of broadcasting: sums over the axes along which `shape` would be repeated to give x. x itself when shapes are equal.
Tensor sum_to(const Tensor& x, const Shape& shape);

enum class Reduction { Sum, Product, Max };

/// x seen as [outer, n, inner], where n is what an op reduces. It is cut into chunks, also when one result needs all elements; how
/// depends on the extents and on the kind of device.
struct ReductionView {
  int64_t outer = 1, n = 1, inner = 1;
  DeviceKind kind = DeviceKind::cpu;
  int64_t chunk_items() const;
  int64_t chunks() const { return n == 0 ? 1 : (n + chunk_items() - 1) / chunk_items(); }
};

namespace kernels {
/// partial [outer, chunks, inner] in the arithmetic dtype -> y [outer, inner] = factor * the combined chunks, in x's dtype or that one.
void reduce(Cpu& cpu, Reduction rule, const ReductionView& view, const Tensor& x, const Tensor& partial, double factor, const Tensor& y);
void reduce(Cuda& cuda, Reduction rule, const ReductionView& view, const Tensor& x, const Tensor& partial, double factor, const Tensor& y);
void max_backward(Cpu& cpu, const ReductionView& view, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx);
void max_backward(Cuda& cuda, const ReductionView& view, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx);
void prod_backward(Cpu& cpu, const ReductionView& view, const Tensor& x, const Tensor& dy, const Tensor& dx);
void prod_backward(Cuda& cuda, const ReductionView& view, const Tensor& x, const Tensor& dy, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
