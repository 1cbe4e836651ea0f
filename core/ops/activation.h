#pragma once
#include <utility>

#include "core/ops/elementwise_names.h"
#include "core/tensor.h"

namespace sluice {

/// y = f(x + bias): the bias and the activation after a matrix product in one pass.
/// Shape   x [..., N], bias [N] -> y as x, row-major.
/// Dtypes  f32, f64, bf16 (arithmetic in f32); both the same.
/// Errors  UsageError when the bias does not fit the last axis, dtypes differ, or the rule is none of SLUICE_BIAS_ACTIVATIONS.
Tensor bias_activation(Unary rule, const Tensor& x, const Tensor& bias);

/// {dx, dbias}, undefined where not needed. Without a bias x has it in it already, and dbias is the same sum. dx takes one pass; dbias, in
/// f32 (f64 for f64), sums its rows in chunks that depend on shapes only, in order.
std::pair<Tensor, Tensor> bias_activation_backward(Unary rule, const Tensor& x, const Tensor& bias, const Tensor& dy, bool needs_x,
                                                   bool needs_bias);

#define SLUICE_DECLARE(Rule, name) \
  inline Tensor name(const Tensor& x, const Tensor& bias) { return bias_activation(Unary::Rule, x, bias); }
SLUICE_BIAS_ACTIVATIONS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

/// silu(a) * b, the gate of SwiGLU, in one pass. Equal shapes and dtypes.
/// Source  Shazeer 2020, arXiv:2002.05202.
Tensor mul_silu(const Tensor& a, const Tensor& b);
/// {da, db}, undefined where not needed, in one pass.
std::pair<Tensor, Tensor> mul_silu_backward(const Tensor& a, const Tensor& b, const Tensor& dy, bool needs_a, bool needs_b);

namespace kernels {
void bias_activation(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& y);
void bias_activation(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& y);
/// partial [chunks, N] gets the sums for dbias over each chunk of rows, in the arithmetic dtype: chunks of ReductionView{1, rows, N} on
/// CPU, of kGpuChunkRows on CUDA.
/// dx, partial or bias may be undefined.
void bias_activation_backward(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                              const Tensor& partial);
void bias_activation_backward(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                              const Tensor& partial);
void mul_silu(Cpu& cpu, const Tensor& a, const Tensor& b, const Tensor& y);
void mul_silu(Cuda& cuda, const Tensor& a, const Tensor& b, const Tensor& y);
/// da or db may be undefined.
void mul_silu_backward(Cpu& cpu, const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& da, const Tensor& db);
void mul_silu_backward(Cuda& cuda, const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& da, const Tensor& db);
}  // namespace kernels

}  // namespace sluice
