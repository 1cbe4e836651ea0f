#pragma once
#include <vector>

#include "core/ops/elementwise_operands.h"
#include "core/tensor.h"

namespace sluice {

#define SLUICE_COMPARISONS(X) X(less, <) X(less_equal, <=) X(greater, >) X(greater_equal, >=) X(equal, ==) X(not_equal, !=)

/// Comparisons, 1 where they hold and else 0, element by element with broadcasting after NumPy's rule: less, less_equal, greater,
/// greater_equal, equal, not_equal. Of a NaN only not_equal holds.
/// Shape   a and b broadcast to the result, row-major; any strides, no operand is copied.
/// Dtypes  all, both the same -> u8. A number takes the dtype of the tensor.
/// Errors  UsageError when shapes do not broadcast, dtypes or devices differ, or a number beside integers is not one of them.
#define SLUICE_DECLARE(name, sign)                                                                      \
  Tensor name(const Tensor& a, const Tensor& b);                                                        \
  inline Tensor name(const Tensor& x, double number) { return name(x, number_like(#name, x, number)); } \
  inline Tensor name(double number, const Tensor& x) { return name(number_like(#name, x, number), x); }
SLUICE_COMPARISONS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

/// Of conditions, which hold where they are not 0.
/// Shape   as above.
/// Dtypes  u8 -> u8.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

/// Whether a condition holds anywhere, or everywhere, along a list of axes (all when empty), which are kept with extent 1 when `keep` is
/// set. Of no elements `any` does not hold and `all` does.
/// Dtypes  u8 -> u8.
/// Cost    x is counted in f32.
Tensor any(const Tensor& x, std::vector<int> axes = {}, bool keep = false);
Tensor all(const Tensor& x, std::vector<int> axes = {}, bool keep = false);

/// Dtypes  f32, f64, bf16 -> u8.
Tensor isnan(const Tensor& x);
/// Neither NaN nor infinite.
Tensor isfinite(const Tensor& x);

/// The rules that have kernels; And and Or are of u8 alone.
enum class Comparison { Less, LessEqual, Equal, NotEqual, And, Or };

namespace kernels {
void compare(Cpu& cpu, Comparison rule, const Tensor& a, const Tensor& b, const Tensor& y);
void compare(Cuda& cuda, Comparison rule, const Tensor& a, const Tensor& b, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
