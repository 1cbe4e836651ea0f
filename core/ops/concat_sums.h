#pragma once
#include <vector>

#include "core/tensor.h"

namespace sluice {

/// A part of concat_sums(): a, or a + b where b is defined.
struct Addends {
  Tensor a, b = {};
};

/// The parts one after the other along the last axis, of which each may be a sum, and with `relu` max(y, 0) of all: what ends a cell, in one
/// pass over memory. The bits of sums, a concatenation and a ReLU one after another.
/// Shape   parts [..., n_i], a sum's addends alike -> y [..., sum of n_i], row-major.
/// Dtypes  f32, f64, bf16 (sums rounded once); all the same.
/// Errors  UsageError for no parts, parts that differ in another axis than the last, addends of two shapes, or several dtypes.
Tensor concat_sums(const std::vector<Addends>& parts, bool relu);

/// The gradients of the parts, which are those of their addends: of widths n_i that add up to dy's last axis; undefined where not needed. y,
/// of which ReLU's slope is read, is undefined without ReLU.
/// Shape   dy, y [..., sum of n_i] -> [..., n_i], row-major.
/// Errors  UsageError when widths or y do not fit dy.
std::vector<Tensor> concat_sums_backward(const Tensor& dy, const Tensor& y, const std::vector<int64_t>& widths,
                                         const std::vector<bool>& needs);

namespace kernels {
void concat_sums(Cpu& cpu, const std::vector<Addends>& parts, bool relu, const Tensor& y);
void concat_sums(Cuda& cuda, const std::vector<Addends>& parts, bool relu, const Tensor& y);
/// y may be undefined, and gradients that nobody needs.
void concat_sums_backward(Cpu& cpu, const Tensor& dy, const Tensor& y, const std::vector<int64_t>& widths,
                          const std::vector<Tensor>& gradients);
void concat_sums_backward(Cuda& cuda, const Tensor& dy, const Tensor& y, const std::vector<int64_t>& widths,
                          const std::vector<Tensor>& gradients);
}  // namespace kernels

}  // namespace sluice
