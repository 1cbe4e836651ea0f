#pragma once
#include "core/tensor.h"

namespace sluice {

/// Tables of positions: row t holds, for the position p = first + t, sin(p f_i) for the first half of the columns, then cos(p f_i), where
/// f_i = base^(-i / h) and h = (width + 1) / 2. With an odd width the last cosine is left out.
/// Shape   -> [count, width].
/// Dtypes  f32, f64, bf16 (angles in f64).
/// Errors  UsageError for a negative position or width, or a base <= 0.
/// Cost    a power, a sine or cosine an element: make it once and keep it.
/// Source  Vaswani et al. 2017, arXiv:1706.03762, 3.5.
struct SinusoidTable {
  int64_t first = 0, count = 0, width = 0;
  double base = 10000;
};
Tensor sinusoids(const SinusoidTable& table, DType dtype, const DevicePtr& device);

namespace kernels {
void sinusoids(Cpu& cpu, const SinusoidTable& table, const Tensor& y);
void sinusoids(Cuda& cuda, const SinusoidTable& table, const Tensor& y);
}  // namespace kernels

}  // namespace sluice
